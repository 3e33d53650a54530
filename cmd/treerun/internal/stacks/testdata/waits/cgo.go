package main

/*
#include <unistd.h>
extern void back(void);
static void spin(int n) { for (volatile int i = n;; i++); }
static void call(void) { back(); }
*/
import "C"

func init() {
	ways["c"] = func() { C.sleep(announce(C.uint(3600))) }
	ways["cspin"] = func() { C.spin(announce(C.int(1))) }
	ways["callback"] = func() { C.call() }
}

//export back
func back() {
	<-announce(make(chan int))
}

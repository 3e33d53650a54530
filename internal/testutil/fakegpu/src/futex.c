#define _GNU_SOURCE
#include "driver.h"

#include <limits.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

void futex_wait(const void *word, uint32_t value, long microseconds) {
    struct timespec t = {microseconds / 1000000, microseconds % 1000000 * 1000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, &t, NULL, 0);
}

void futex_wake(const void *word) { syscall(SYS_futex, word, FUTEX_WAKE, INT_MAX, NULL, NULL, 0); }

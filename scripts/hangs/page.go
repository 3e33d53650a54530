package main

import "errors"

func printPage(name string) error { return errors.New("no page yet") }

// Command pause is what runs in a Pod's sandbox: it holds the namespaces, and waits.
//
// Built by kopf_offline/node_image.py where no image registry is reached. As the first process of a
// Pod that shares its process namespace, it also collects the children of those that ended.
package main

import (
	"os"
	"os/signal"
	"syscall"
)

func main() {
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for received := range signals {
		if received != syscall.SIGCHLD {
			return
		}
		for {
			child, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
			if child <= 0 || err != nil {
				break
			}
		}
	}
}

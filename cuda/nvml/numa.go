package nvml

import (
	"os"
	"strconv"
	"strings"
)

// linuxNUMA returns the NUMA node of a PCI device according to the kernel, -1 when the kernel does not know it.
func linuxNUMA(address string) int {
	text, _ := os.ReadFile("/sys/bus/pci/devices/" + address + "/numa_node") // without it there is no number
	node, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || node < 0 {
		return -1
	}
	return node
}

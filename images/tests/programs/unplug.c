// SPDX-License-Identifier: GPL-2.0-only
/*
 * An interrupt that a CPU injects while it goes off line arrives: a module
 * signals irqfds there until it takes no interrupts any more, and each of them
 * must be pending afterwards.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../../../linux/tests/vm.h"

#define COUNT	1023
#define MODULE	"trapless_unplug"
#define ONLINE	"/sys/devices/system/cpu/cpu1/online"

static void set_online(const char *value)
{
	int file = open(ONLINE, O_WRONLY);

	if (file < 0 || write(file, value, 1) != 1 || close(file))
		fatal("write to " ONLINE);
}

static unsigned long parameter(const char *name)
{
	unsigned long value = 0;
	char path[128];
	FILE *file;

	snprintf(path, sizeof(path), "/sys/module/" MODULE "/parameters/%s",
		 name);
	file = fopen(path, "r");
	if (!file || fscanf(file, "%lu", &value) != 1 || fclose(file))
		fatal(path);
	return value;
}

/* The first of COUNT eventfds with consecutive numbers, one for each source */
static int create_eventfds(struct vm *vm)
{
	struct rlimit limit = { 2 * COUNT, 2 * COUNT };
	struct kvm_irqfd irqfd = {};
	int i, first = -1;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		fatal("allow more files");
	for (i = 0; i < COUNT; i++) {
		irqfd.fd = eventfd(0, 0);
		irqfd.gsi = i + 1;
		if (!i)
			first = irqfd.fd;
		if (irqfd.fd != first + i || ioctl(vm->fd, KVM_IRQFD, &irqfd))
			fatal("create an irqfd");
	}
	return first;
}

int main(void)
{
	unsigned long sent, late, pending = 0;
	char parameters[64];
	int i, file, first;
	struct vm vm;

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	file = open("/tests/" MODULE ".ko", O_RDONLY | O_CLOEXEC);
	if (kvm < 0 || file < 0)
		fatal("open /dev/kvm and the module");
	create_large_domain(&vm, 1, COUNT);
	first = create_eventfds(&vm);
	snprintf(parameters, sizeof(parameters), "cpu=1 first=%d count=%d",
		 first, COUNT);
	if (syscall(SYS_finit_module, file, parameters, 0))
		fatal("load the module");

	set_online("0");
	sent = parameter("sent");
	late = parameter("late");
	for (i = 0; i < 32; i += 2)
		pending += __builtin_popcountl(vcpu_word(&vm, 0, i));
	CHECK(late > 0, "%lu irqfds signalled, %lu of them after KVM", sent, late);
	CHECK(pending == sent, "%lu are pending", pending);

	set_online("1");
	if (syscall(SYS_delete_module, MODULE, 0))
		fatal("unload the module");
	destroy_vm(&vm);

	return failures != 0;
}

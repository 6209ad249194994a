// SPDX-License-Identifier: GPL-2.0-only
/*
 * An interrupt that a CPU injects while it goes off line arrives: a module
 * signals irqfds there until it takes no interrupts any more, and each of them
 * must be pending afterwards. If it is for a vCPU that sleeps, that is woken up,
 * also if no other CPU could hear of it at that time.
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

/* The first of @count eventfds with consecutive numbers, one for each source */
static int create_eventfds(struct vm *vm, int count)
{
	struct rlimit limit = { 2 * COUNT, 2 * COUNT };
	struct kvm_irqfd irqfd = {};
	int i, first = -1;

	if (setrlimit(RLIMIT_NOFILE, &limit))
		fatal("allow more files");
	for (i = 0; i < count; i++) {
		irqfd.fd = eventfd(0, 0);
		irqfd.gsi = i + 1;
		if (!i)
			first = irqfd.fd;
		if (irqfd.fd != first + i || ioctl(vm->fd, KVM_IRQFD, &irqfd))
			fatal("create an irqfd");
	}
	return first;
}

static void load_module(const char *parameters)
{
	int file = open("/tests/" MODULE ".ko", O_RDONLY | O_CLOEXEC);

	if (file < 0 || syscall(SYS_finit_module, file, parameters, 0))
		fatal("load the module");
	close(file);
}

static void unload_module(void)
{
	if (syscall(SYS_delete_module, MODULE, 0))
		fatal("unload the module");
}

static void test_pending(void)
{
	unsigned long sent, late, pending = 0;
	char parameters[64];
	struct vm vm;
	int i;

	create_large_domain(&vm, 1, COUNT);
	snprintf(parameters, sizeof(parameters), "cpu=1 first=%d count=%d",
		 create_eventfds(&vm, COUNT), COUNT);
	load_module(parameters);
	set_online("0");
	sent = parameter("sent");
	late = parameter("late");
	for (i = 0; i < 32; i += 2)
		pending += __builtin_popcountl(vcpu_word(&vm, 0, i));
	CHECK(late > 0, "%lu irqfds signalled, %lu of them after KVM", sent, late);
	CHECK(pending == sent, "%lu are pending", pending);
	set_online("1");
	unload_module();
	destroy_vm(&vm);
}

/* A vCPU sleeps on CPU 0, while that is awake (@idle is -1) or in a low-power state */
static void test_wakes(int idle)
{
	volatile struct shared *a;
	char parameters[64];
	uint64_t before;
	struct vm vm;

	create_domain(&vm, 1);
	a = vm.vcpus[0].shared;
	vm.vcpus[0].cpu = 0;
	snprintf(parameters, sizeof(parameters), "cpu=1 first=%d count=1 idle=%d",
		 create_eventfds(&vm, 1), idle);
	start(&vm.vcpus[0]);
	irq_line(&vm, 2, 1);
	CHECK(reaches(&a->count[2], 1), "a vCPU runs");
	usleep(20000);
	before = a->count[1];
	load_module(parameters);
	set_online("0");
	CHECK(parameter("sent") == 1 && (idle < 0 || parameter("slept") == 1),
	      "an irqfd is signalled by a CPU that goes off line%s",
	      idle < 0 ? "" : " while the other one is in a low-power state");
	CHECK(reaches(&a->count[1], before + 1), "it wakes the vCPU up");
	set_online("1");
	CHECK(reaches(&a->count[1], before + 1), "once");
	unload_module();
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
}

int main(void)
{
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		fatal("open /dev/kvm");
	test_pending();
	test_wakes(-1);
	test_wakes(0);

	return failures != 0;
}

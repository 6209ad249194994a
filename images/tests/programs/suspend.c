// SPDX-License-Identifier: GPL-2.0-only
/*
 * A CPU that has lost its registers in a suspend runs vCPUs, injects interrupts
 * and is told of waiting vCPUs as before.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "../../../linux/tests/vm.h"

static void pin(int cpu)
{
	cpu_set_t cpus;

	CPU_ZERO(&cpus);
	CPU_SET(cpu, &cpus);
	if (sched_setaffinity(0, sizeof(cpus), &cpus))
		fatal("pin this thread");
}

/* Y or N */
static char result(const char *name)
{
	char path[80];
	FILE *file;
	int value;

	snprintf(path, sizeof(path),
		 "/sys/module/trapless_suspend/parameters/%s", name);
	file = fopen(path, "r");
	if (!file)
		fatal(path);
	value = fgetc(file);
	fclose(file);
	return value;
}

/* A thread with a grant asks for the suspend */
static void test_grant(struct vm *vm, int file)
{
	volatile struct shared *a = vm->vcpus[0].shared;
	uint64_t before = a->count[1];

	pin(1);
	CHECK(!set64(vm, KVM_DEV_TRAPLESS_GRP_GRANT, 0, 1 << 16 | 1), "a grant");
	CHECK(!syscall(SYS_finit_module, file, "here=1", 0),
	      "CPU 1 is suspended by a thread with a grant");
	CHECK(result("grant_lost") == 'N', "which it has afterwards");
	CHECK(result("restless") == 'N', "what a guest left pending wakes nobody");
	asm volatile("csrw 0x800, %0" : : "r" (1) : "memory");
	CHECK(reaches(&a->count[1], before + 1), "and can use");
	CHECK(!set64(vm, KVM_DEV_TRAPLESS_GRP_GRANT, 0, 0), "and give back");
}

int main(void)
{
	volatile struct shared *a, *b;
	struct vm vm;
	int file;

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	file = open("/tests/trapless_suspend.ko", O_RDONLY | O_CLOEXEC);
	if (kvm < 0 || file < 0)
		fatal("open /dev/kvm and the module");
	create_domain(&vm, 2);
	a = vm.vcpus[0].shared;
	b = vm.vcpus[1].shared;
	vm.vcpus[0].cpu = 1;
	vm.vcpus[1].cpu = 1;
	start(&vm.vcpus[0]);
	start(&vm.vcpus[1]);
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], 1) && reaches(&b->rounds, 1),
	      "both vCPUs run");
	usleep(20000);

	CHECK(!syscall(SYS_finit_module, file, "cpu=1", 0), "CPU 1 is suspended");
	pin(0);
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], 2), "an interrupt from another CPU");
	usleep(20000);
	pin(1);
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], 3), "one from the CPU that was suspended");
	a->argument = 2;
	a->command = 1;
	irq_line(&vm, 1, 1);
	CHECK(reaches(&b->soft, 1), "one from vCPU to vCPU");
	if (syscall(SYS_delete_module, "trapless_suspend", 0))
		fatal("unload the module");
	test_grant(&vm, file);
	stop(&vm.vcpus[0]);
	stop(&vm.vcpus[1]);
	destroy_vm(&vm);

	return failures != 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * User-level exception redirection: a handler in this program answers a guest's
 * accesses to a device, leaves them to KVM, and may be interrupted, without
 * pages, or wrong.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>
#include "../../../linux/tests/vm.h"
#include "../../../linux/include/kvm-numbers.h"
#include "../../../linux/include/uapi/linux/kvm_uer.h"

#define DEVICE		0x10000000UL
/* Where vm.c puts the guest */
#define RAM		0x80000000UL
/* What the handler does by offset in the device's page */
#define ANSWER		0x00	/* loads: the number of stores so far */
#define LEAVE		0x10	/* leaves the access to KVM */
#define RETURN		0x20	/* answers, and lets KVM_RUN return */
#define WAIT		0x30	/* answers when `released` is set */
#define TOUCH		0x38	/* answers after it has written to `page` */
#define ECALL		0x40	/* executes ECALL in a wrong place */
#define FLOAT		0x48	/* executes a floating-point instruction */
#define WILD		0x50	/* stores to an address where nothing is */

/* Where the kernel is */
#define KERNEL		0xffffffff80000000UL

/* What uer_stub.S finds in uscratch */
struct frame {
	uint64_t x[32];
	uint64_t stack;		/* 256 */
	uint64_t tp;		/* 264 */
	uint64_t gp;		/* 272 */
	uint64_t stores;	/* answered so far */
	uint64_t entries;
};

extern char uer_entry[], uer_ecall[], uer_guest[], uer_guest_end[];
int uer_handler(struct frame *f, uint64_t address, uint32_t insn);

/* The device of the last VM that this thread has begun */
static __thread int device = -1;
static volatile int released, waiting;
static char *page;

/* 0: back to the guest; 1: ECALL */
int uer_handler(struct frame *f, uint64_t address, uint32_t insn)
{
	unsigned int store = insn & 0x20, reg = store ? insn >> 20 & 31 : insn >> 7 & 31;
	unsigned long offset = address & 0xff, pc;

	f->entries++;
	switch (offset) {
	case LEAVE:
		return 1;
	case WAIT:
		waiting = 1;
		while (!released)
			;
		break;
	case TOUCH:
		page[f->entries % 4096] = 1;
		break;
	case ECALL:
		asm volatile("ecall" : : : "memory", "a0");
		break;
	case FLOAT:
		asm volatile(".4byte 0x00000053");
		break;
	case WILD:
		asm volatile("sb zero, 8(zero)" : : : "memory");
		break;
	}
	if (store)
		f->stores++;
	else
		f->x[reg] = f->stores & 0xff;
	asm volatile("csrr %0, 0x8c1" : "=r" (pc));
	asm volatile("csrw 0x8c1, %0" : : "r" (pc + (insn & 2 ? 4 : 2)));
	if (offset == RETURN) {
		asm volatile("csrw 0x8c2, zero");
		return 1;
	}
	return 0;
}

static int uer_attr(int dev, uint32_t group, uint64_t which, uint64_t value)
{
	struct kvm_device_attr a = {
		.group = group,
		.attr = which,
		.addr = (uintptr_t)&value,
	};

	return ioctl(dev, KVM_SET_DEVICE_ATTR, &a) ? -errno : 0;
}

static int create_uer(struct vm *vm)
{
	struct kvm_create_device cd = { .type = KVM_DEV_TYPE_RISCV_UER };

	if (ioctl(vm->fd, KVM_CREATE_DEVICE, &cd))
		fatal("create the device");
	return cd.fd;
}

static struct frame *give_handler(struct vm *vm, int dev, int number)
{
	struct frame *frame = aligned_alloc(64, sizeof(*frame));
	char *stack = malloc(1 << 16);
	uint64_t tp, gp;

	memset(frame, 0, sizeof(*frame));
	asm volatile("mv %0, tp\n mv %1, gp" : "=r" (tp), "=r" (gp));
	frame->stack = (uintptr_t)stack + (1 << 16);
	frame->tp = tp;
	frame->gp = gp;
	if (uer_attr(dev, KVM_DEV_UER_GRP_VCPU, KVM_DEV_UER_VCPU(number, KVM_DEV_UER_USCRATCH),
		     (uintptr_t)frame) ||
	    uer_attr(dev, KVM_DEV_UER_GRP_VCPU, KVM_DEV_UER_VCPU(number, KVM_DEV_UER_UEXIT),
		     (uintptr_t)uer_ecall) ||
	    uer_attr(dev, KVM_DEV_UER_GRP_VCPU, KVM_DEV_UER_VCPU(number, KVM_DEV_UER_UTVEC),
		     (uintptr_t)uer_entry))
		fatal("set the handler");
	return frame;
}

/* A VM whose guest stores to the device, and loads from there */
static struct frame *begin(struct vm *vm, unsigned long offset)
{
	struct vcpu *vcpu = &vm->vcpus[0];
	struct frame *frame;
	int dev;

	create_vm(vm, 1);
	memcpy(vm->memory, uer_guest, uer_guest_end - uer_guest);
	dev = create_uer(vm);
	if (uer_attr(dev, KVM_DEV_UER_GRP_REGION, DEVICE, 4096))
		fatal("set the region");
	frame = give_handler(vm, dev, 0);
	if (set_reg(vcpu, CORE(regs.a0), DEVICE + offset) ||
	    set_reg(vcpu, CORE(regs.a1), 0x41) || set_reg(vcpu, CORE(regs.a3), 0))
		fatal("set registers");
	close(device);
	device = dev;
	return frame;
}

static int in_handler(void)
{
	uint64_t value = 2;
	struct kvm_device_attr a = {
		.group = KVM_DEV_UER_GRP_VCPU,
		.attr = KVM_DEV_UER_VCPU(0, KVM_DEV_UER_IN_HANDLER),
		.addr = (uintptr_t)&value,
	};

	return !ioctl(device, KVM_GET_DEVICE_ATTR, &a) && value == 1;
}

static int run(struct vm *vm)
{
	return ioctl(vm->vcpus[0].fd, KVM_RUN, 0) ? -errno : 0;
}

/* Does KVM_RUN end with the guest's own store, and after how many rounds? */
static int ends_with_round(struct vm *vm, uint64_t round)
{
	struct kvm_run *r = vm->vcpus[0].run;

	return !run(vm) && r->exit_reason == KVM_EXIT_MMIO && r->mmio.is_write &&
	       r->mmio.phys_addr == 0x20000000 && *(uint32_t *)r->mmio.data == round;
}

static void test_answers(void)
{
	struct vm vm;
	struct frame *f = begin(&vm, ANSWER);
	struct vcpu *v = &vm.vcpus[0];
	int i, good = 0;

	for (i = 1; i <= 100; i++)
		good += ends_with_round(&vm, i) &&
			get_reg(v, CORE(regs.a2)) == (uint64_t)i &&
			get_reg(v, CORE(regs.a1)) == 0x41;
	CHECK(good == 100 && f->entries == 200 && f->stores == 100,
	      "200 accesses are answered without an exit");
	destroy_vm(&vm);
}

static void test_leaves(void)
{
	struct vm vm;
	struct frame *f = begin(&vm, LEAVE);
	struct kvm_run *r = vm.vcpus[0].run;

	CHECK(!run(&vm) && r->exit_reason == KVM_EXIT_MMIO && r->mmio.is_write &&
	      r->mmio.phys_addr == DEVICE + LEAVE && r->mmio.len == 1 &&
	      r->mmio.data[0] == 0x41, "a store is left to KVM");
	CHECK(!run(&vm) && r->exit_reason == KVM_EXIT_MMIO && !r->mmio.is_write &&
	      r->mmio.phys_addr == DEVICE + LEAVE && r->mmio.len == 1, "so is a load");
	r->mmio.data[0] = 0x99;
	CHECK(ends_with_round(&vm, 1) && f->entries == 2 &&
	      get_reg(&vm.vcpus[0], CORE(regs.a2)) == 0x99, "and gets its answer");
	destroy_vm(&vm);
}

static void test_returns(void)
{
	struct vm vm;
	struct frame *f = begin(&vm, RETURN);
	struct kvm_run *r = vm.vcpus[0].run;

	CHECK(!run(&vm) && r->exit_reason == KVM_EXIT_RISCV_UER && f->stores == 1 &&
	      !run(&vm) && r->exit_reason == KVM_EXIT_RISCV_UER && f->entries == 2,
	      "KVM_RUN returns behind the access");
	CHECK(ends_with_round(&vm, 1) && get_reg(&vm.vcpus[0], CORE(regs.a2)) == 1,
	      "and the guest goes on");
	destroy_vm(&vm);
}

static void on_alarm(int number)
{
}

static void *release(void *unused)
{
	usleep(30000);
	released = 1;
	return NULL;
}

/* A VM that a signal has ended in its handler */
static int interrupt(struct vm *vm)
{
	struct itimerval in_5ms = { .it_value.tv_usec = 5000 };
	struct sigaction alarm = { .sa_handler = on_alarm };

	waiting = 0;
	released = 0;
	begin(vm, WAIT);
	sigaction(SIGALRM, &alarm, NULL);
	setitimer(ITIMER_REAL, &in_5ms, NULL);
	return run(vm) == -EINTR && waiting;
}

static void test_interrupted(void)
{
	pthread_t thread;
	struct vm vm;

	CHECK(interrupt(&vm), "a signal ends KVM_RUN in the handler");
	pthread_create(&thread, NULL, release, NULL);
	CHECK(ends_with_round(&vm, 1), "the handler goes on in the next one");
	pthread_join(thread, NULL);
	destroy_vm(&vm);
}

static void test_finished(void)
{
	struct kvm_run *r;
	struct vm vm;

	CHECK(interrupt(&vm) && in_handler(), "the vCPU is in its handler");
	r = vm.vcpus[0].run;
	released = 1;
	r->immediate_exit = 1;
	CHECK(run(&vm) == -EINTR && !in_handler(), "immediate_exit ends the handler");
	CHECK(get_reg(&vm.vcpus[0], CORE(regs.pc)) == RAM + 4 &&
	      get_reg(&vm.vcpus[0], CORE(regs.a0)) == DEVICE + WAIT,
	      "and shows the guest behind its instruction");
	CHECK(run(&vm) == -EINTR && get_reg(&vm.vcpus[0], CORE(regs.pc)) == RAM + 4,
	      "where it stays");
	r->immediate_exit = 0;
	CHECK(ends_with_round(&vm, 1), "and from where it goes on");
	destroy_vm(&vm);
}

/*
 * The kernel's registers are not to be had by the handler's: with SPP = 1 it would
 * go on in HS-mode, wherever its VMM says.
 */
static void test_registers(void)
{
	struct vm vm;
	struct vcpu *v = &vm.vcpus[0];
	int refused;

	CHECK(interrupt(&vm) && in_handler(), "a vCPU in its handler");
	refused = set_reg(v, CORE(mode), 1) && errno == EBUSY;
	refused += set_reg(v, CORE(regs.pc), KERNEL) && errno == EBUSY;
	refused += set_reg(v, CORE(regs.a0), 1) && errno == EBUSY;
	released = 1;
	CHECK(ends_with_round(&vm, 1), "goes on in user mode");
	CHECK(refused == 3, "and keeps its registers");
	CHECK(!set_reg(v, CORE(regs.a0), DEVICE) && !set_reg(v, CORE(mode), 1),
	      "those of the guest can be written again");
	destroy_vm(&vm);
}

static void test_faults(void)
{
	struct vm vm;
	int i, good = 0;

	page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	begin(&vm, TOUCH);
	for (i = 1; i <= 20; i++) {
		madvise(page, 4096, MADV_DONTNEED);
		good += ends_with_round(&vm, i);
	}
	CHECK(good == 20, "a handler gets pages that were not there");
	destroy_vm(&vm);
}

/* KVM_RUN ends with an error of the VMM whose cause is `cause` */
static void wrong(unsigned long offset, uint64_t cause, const char *what)
{
	struct kvm_run *r;
	struct vm vm;

	begin(&vm, offset);
	r = vm.vcpus[0].run;
	CHECK(!run(&vm) && r->exit_reason == KVM_EXIT_INTERNAL_ERROR &&
	      r->internal.data[0] == cause, "%s: KVM_RUN tells", what);
	destroy_vm(&vm);
}

static void *other_guest(void *argument)
{
	struct vm vm;
	struct frame *f = begin(&vm, ANSWER);
	intptr_t i, good = 0;

	for (i = 1; i <= 2000; i++)
		good += ends_with_round(&vm, i) &&
			get_reg(&vm.vcpus[0], CORE(regs.a2)) == (i & 0xff);
	good += f->stores == 2000;
	destroy_vm(&vm);
	return (void *)good;
}

static void test_several(void)
{
	pthread_t threads[3];
	int i, good = 0;
	void *result;

	for (i = 0; i < 3; i++)
		pthread_create(&threads[i], NULL, other_guest, NULL);
	for (i = 0; i < 3; i++) {
		pthread_join(threads[i], &result);
		good += (intptr_t)result == 2001;
	}
	CHECK(good == 3, "guests with handlers take turns on the harts");
}

static void test_api(void)
{
	struct vm vm;
	int dev, set = KVM_DEV_UER_GRP_VCPU;

	create_vm(&vm, 1);
	dev = create_uer(&vm);
	CHECK(uer_attr(dev, KVM_DEV_UER_GRP_REGION, DEVICE, 0) == -EINVAL &&
	      uer_attr(dev, KVM_DEV_UER_GRP_REGION, DEVICE + 8, 4096) == -EINVAL &&
	      uer_attr(dev, KVM_DEV_UER_GRP_REGION, -4096UL, 4096) == -EINVAL &&
	      uer_attr(dev, KVM_DEV_UER_GRP_REGION, DEVICE, 65 * 4096) == -ENOSPC &&
	      uer_attr(dev, KVM_DEV_UER_GRP_REGION, RAM, 4096) == -EEXIST,
	      "regions are checked");
	CHECK(uer_attr(dev, set, KVM_DEV_UER_VCPU(1, KVM_DEV_UER_UTVEC), 4) == -ENXIO &&
	      uer_attr(dev, set, KVM_DEV_UER_VCPU(0, 3), 4) == -ENXIO &&
	      uer_attr(dev, set, KVM_DEV_UER_VCPU(0, KVM_DEV_UER_UTVEC), 2) == -EINVAL,
	      "so are handlers");
	close(dev);
	destroy_vm(&vm);
}

int main(void)
{
	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		fatal("open /dev/kvm");
	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_UER) <= 0) {
		printf("skip: KVM offers no Xuer\n");
		return 4;
	}
	test_api();
	test_answers();
	test_leaves();
	test_returns();
	test_interrupted();
	test_finished();
	test_registers();
	test_faults();
	wrong(ECALL, 8, "an ECALL anywhere else");
	wrong(FLOAT, 2, "floating point");
	wrong(WILD, 15, "a wild store");
	test_several();

	return failures != 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * Test of the KVM device of Xtrapless, without a VMM: a bare-metal guest of one
 * page counts what it is interrupted with.
 *
 * Prints one line per check and exits with 1 if one fails, 4 if the host has no
 * Xtrapless (as KVM's selftests do).
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include <linux/kvm.h>
#include "../include/uapi/linux/kvm_trapless.h"

#define GUEST_BASE	0x80000000ULL
#define GUEST_SIZE	0x10000
#define SHARED_OFFSET	0x8000
#define VCPUS		2
#define SOURCES		16
#define LEVEL		(1ULL << 32)
#define RESAMPLE	(1ULL << 33)
#define PRIO(p)		((uint64_t)(p) << 16)
#define SSIE		(1 << 1)
#define SEIE		(1 << 9)

/* One for each vCPU, in memory that guest and test share; trapless_guest.S knows it */
struct shared {
	uint64_t sie;		/* 0: what the guest writes to sie */
	uint64_t command;	/* 8: 1 sgenipi, 2 hgenvsi */
	uint64_t argument;	/* 16 */
	uint64_t soft;		/* 24: software interrupts */
	uint64_t exceptions;	/* 32 */
	uint64_t cause;		/* 40: of the last exception */
	uint64_t rounds;	/* 48: times round the loop */
	uint64_t count[SOURCES + 1]; /* 56: external interrupts */
	uint64_t hold;		/* 192: do not complete while set */
};

_Static_assert(offsetof(struct shared, hold) == 192, "known to the guest");

/* Code of the guest */
extern const char guest_begin[], guest_end[];

struct vcpu {
	int fd;
	struct kvm_run *run;
	pthread_t thread;
	volatile int stop;
	volatile int running;
	volatile struct shared *shared;
};

struct vm {
	int fd;
	int dev;
	char *memory;
	struct vcpu vcpus[VCPUS];
};

static int kvm, failures;

#define CHECK(condition, ...)						\
	do {								\
		int ok_ = !!(condition);				\
									\
		printf("%s ", ok_ ? "ok  " : "FAIL");			\
		printf(__VA_ARGS__);					\
		printf("\n");						\
		fflush(stdout);						\
		failures += !ok_;					\
	} while (0)

static void fatal(const char *what)
{
	printf("FAIL %s: %s\n", what, strerror(errno));
	exit(1);
}

static int attr(struct vm *vm, int op, uint32_t group, uint64_t attr,
		void *value)
{
	struct kvm_device_attr a = {
		.group = group,
		.attr = attr,
		.addr = (uintptr_t)value,
	};

	return ioctl(vm->dev, op, &a) ? -errno : 0;
}

static int set64(struct vm *vm, uint32_t group, uint64_t index, uint64_t value)
{
	return attr(vm, KVM_SET_DEVICE_ATTR, group, index, &value);
}

static int set32(struct vm *vm, uint32_t group, uint64_t index, uint32_t value)
{
	return attr(vm, KVM_SET_DEVICE_ATTR, group, index, &value);
}

static uint64_t get64(struct vm *vm, uint32_t group, uint64_t index)
{
	uint64_t value = ~0ULL;
	int ret = attr(vm, KVM_GET_DEVICE_ATTR, group, index, &value);

	return ret ? (uint64_t)ret : value;
}

static uint64_t vcpu_word(struct vm *vm, int vcpu, int word)
{
	return get64(vm, KVM_DEV_TRAPLESS_GRP_VCPU, (uint64_t)vcpu << 16 | word);
}

static int grant(struct vm *vm, uint64_t first, uint64_t count)
{
	return set64(vm, KVM_DEV_TRAPLESS_GRP_GRANT, 0, count << 16 | first);
}

static int set_reg(struct vcpu *vcpu, uint64_t id, uint64_t value)
{
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	return ioctl(vcpu->fd, KVM_SET_ONE_REG, &reg);
}

static uint64_t get_reg(struct vcpu *vcpu, uint64_t id)
{
	uint64_t value = 0;
	struct kvm_one_reg reg = { .id = id, .addr = (uintptr_t)&value };

	if (ioctl(vcpu->fd, KVM_GET_ONE_REG, &reg))
		fatal("KVM_GET_ONE_REG");
	return value;
}

#define REG(type, name) \
	(KVM_REG_RISCV | KVM_REG_SIZE_U64 | (type) | (name))
#define CORE(name)	REG(KVM_REG_RISCV_CORE, KVM_REG_RISCV_CORE_REG(name))
#define SIP		REG(KVM_REG_RISCV_CSR | KVM_REG_RISCV_CSR_GENERAL, \
			    KVM_REG_RISCV_CSR_REG(sip))

static void create_vm(struct vm *vm)
{
	struct kvm_userspace_memory_region region = {
		.guest_phys_addr = GUEST_BASE,
		.memory_size = GUEST_SIZE,
	};
	int i, size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	memset(vm, 0, sizeof(*vm));
	vm->dev = -1;
	vm->fd = ioctl(kvm, KVM_CREATE_VM, 0);
	vm->memory = mmap(NULL, GUEST_SIZE, PROT_READ | PROT_WRITE,
			  MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (vm->fd < 0 || vm->memory == MAP_FAILED)
		fatal("create a VM");
	memcpy(vm->memory, guest_begin, guest_end - guest_begin);
	region.userspace_addr = (uintptr_t)vm->memory;
	if (ioctl(vm->fd, KVM_SET_USER_MEMORY_REGION, &region))
		fatal("KVM_SET_USER_MEMORY_REGION");

	for (i = 0; i < VCPUS; i++) {
		struct vcpu *vcpu = &vm->vcpus[i];
		struct kvm_mp_state state = { KVM_MP_STATE_RUNNABLE };
		uint64_t offset = SHARED_OFFSET + i * 0x1000;

		vcpu->fd = ioctl(vm->fd, KVM_CREATE_VCPU, i);
		vcpu->run = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED,
				 vcpu->fd, 0);
		if (vcpu->fd < 0 || vcpu->run == MAP_FAILED)
			fatal("create a vCPU");
		vcpu->shared = (struct shared *)(vm->memory + offset);
		vcpu->shared->sie = SSIE | SEIE;
		if (set_reg(vcpu, CORE(regs.pc), GUEST_BASE) ||
		    set_reg(vcpu, CORE(regs.a0), i) ||
		    set_reg(vcpu, CORE(regs.a1), GUEST_BASE + offset) ||
		    set_reg(vcpu, CORE(mode), 1) ||
		    ioctl(vcpu->fd, KVM_SET_MP_STATE, &state))
			fatal("set up a vCPU");
	}
}

static int create_device(struct vm *vm)
{
	struct kvm_create_device cd = { .type = KVM_DEV_TYPE_RISCV_TRAPLESS };

	if (ioctl(vm->fd, KVM_CREATE_DEVICE, &cd))
		return -errno;
	vm->dev = cd.fd;
	return 0;
}

static void create_domain(struct vm *vm)
{
	int i;

	create_vm(vm);
	if (create_device(vm) ||
	    set32(vm, KVM_DEV_TRAPLESS_GRP_CONFIG,
		  KVM_DEV_TRAPLESS_CONFIG_NR_SOURCES, SOURCES) ||
	    attr(vm, KVM_SET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_CTRL,
		 KVM_DEV_TRAPLESS_CTRL_INIT, NULL))
		fatal("set up the device");
	for (i = 1; i <= SOURCES; i++)
		if (set64(vm, KVM_DEV_TRAPLESS_GRP_SOURCE, i, PRIO(1)))
			fatal("set a source");
}

static void *vcpu_thread(void *argument)
{
	struct vcpu *vcpu = argument;

	while (!vcpu->stop) {
		vcpu->running = 1;
		if (ioctl(vcpu->fd, KVM_RUN, 0) && errno != EINTR &&
		    errno != EAGAIN)
			fatal("KVM_RUN");
		if (vcpu->run->exit_reason != KVM_EXIT_INTR &&
		    vcpu->run->exit_reason != KVM_EXIT_UNKNOWN) {
			printf("FAIL exit %u\n", vcpu->run->exit_reason);
			exit(1);
		}
	}
	vcpu->run->immediate_exit = 0;
	return NULL;
}

static void start(struct vcpu *vcpu)
{
	vcpu->stop = 0;
	vcpu->run->immediate_exit = 0;
	if (pthread_create(&vcpu->thread, NULL, vcpu_thread, vcpu))
		fatal("start a thread");
}

static void stop(struct vcpu *vcpu)
{
	vcpu->stop = 1;
	vcpu->run->immediate_exit = 1;
	pthread_kill(vcpu->thread, SIGUSR1);
	pthread_join(vcpu->thread, NULL);
}

static void destroy_vm(struct vm *vm)
{
	int i, size = ioctl(kvm, KVM_GET_VCPU_MMAP_SIZE, 0);

	for (i = 0; i < VCPUS; i++) {
		munmap(vm->vcpus[i].run, size);
		close(vm->vcpus[i].fd);
	}
	if (vm->dev >= 0)
		close(vm->dev);
	close(vm->fd);
	munmap(vm->memory, GUEST_SIZE);
}

/* Waits until *where is at least value; 1 s is for ever here */
static int reaches(volatile uint64_t *where, uint64_t value)
{
	int i;

	for (i = 0; i < 1000 && *where < value; i++)
		usleep(1000);
	return *where == value;
}

static int irq_line(struct vm *vm, uint32_t gsi, int level)
{
	struct kvm_irq_level line = { .irq = gsi, .level = level };

	return ioctl(vm->fd, KVM_IRQ_LINE, &line) ? -errno : 0;
}

/* Notifications that the host has taken */
static unsigned long notifications(void)
{
	unsigned long total = 0;
	char line[512], *word;
	FILE *file = fopen("/proc/interrupts", "r");

	while (file && fgets(line, sizeof(line), file)) {
		if (!strstr(line, "kvm-notify"))
			continue;
		word = strchr(line, ':');
		for (word = strtok(word + 1, " "); word && *word >= '0' &&
		     *word <= '9'; word = strtok(NULL, " "))
			total += strtoul(word, NULL, 10);
	}
	if (file)
		fclose(file);
	return total;
}

static sigjmp_buf illegal;

static void on_sigill(int signal)
{
	siglongjmp(illegal, 1);
}

static void on_sigusr1(int signal)
{
}

/* Does the write to ugenvsei work in this thread? */
static int inject(uint64_t value)
{
	if (sigsetjmp(illegal, 1))
		return 0;
	asm volatile("csrw 0x800, %0" : : "r" (value) : "memory");
	return 1;
}

static int inject_in_child(uint64_t value)
{
	int status;
	pid_t child = fork();

	if (!child)
		_exit(inject(value));
	waitpid(child, &status, 0);
	return status != 0;
}

static void *inject_thread(void *argument)
{
	return (void *)(intptr_t)inject((uintptr_t)argument);
}

static int inject_in_thread(uint64_t value)
{
	pthread_t thread;
	void *result;

	pthread_create(&thread, NULL, inject_thread, (void *)value);
	pthread_join(thread, &result);
	return result != NULL;
}

static struct vm *dying_vm;

static void *dying_thread(void *argument)
{
	return (void *)(intptr_t)(grant(dying_vm, 1, 2) == 0 && inject(1));
}

static void test_device(void)
{
	struct vm vm;
	uint32_t nr;

	create_vm(&vm);
	CHECK(ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_TRAPLESS) > 0,
	      "capability");
	CHECK(create_device(&vm) == 0, "create the device");
	CHECK(irq_line(&vm, 1, 1) == -EBUSY, "no injection before INIT");
	CHECK(set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 1, PRIO(1)) == -EBUSY,
	      "no sources before INIT");
	CHECK(grant(&vm, 1, 1) == -EBUSY, "no grant before INIT");
	CHECK(set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG, 0, 0) == -EINVAL &&
	      set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG, 0, 1024) == -EINVAL &&
	      set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG, 1, 2) == -EINVAL &&
	      set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG, 2, 0) == -ENXIO,
	      "configuration is checked");
	CHECK(set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG, 0, SOURCES) == 0 &&
	      attr(&vm, KVM_GET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_CONFIG, 0,
		   &nr) == 0 && nr == SOURCES, "number of sources");
	CHECK(attr(&vm, KVM_SET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_CTRL, 0,
		   NULL) == 0, "INIT");
	CHECK(attr(&vm, KVM_SET_DEVICE_ATTR, KVM_DEV_TRAPLESS_GRP_CTRL, 0,
		   NULL) == -EBUSY, "INIT once");
	CHECK(set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG, 0, 8) == -EBUSY,
	      "the number of sources is final");
	CHECK(ioctl(vm.fd, KVM_CREATE_VCPU, VCPUS) < 0 && errno == EBUSY,
	      "no vCPUs after INIT");
	CHECK(set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 0, PRIO(1)) == -ENXIO &&
	      set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, SOURCES + 1,
		    PRIO(1)) == -ENXIO &&
	      set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 1,
		    PRIO(1) | VCPUS) == -EINVAL &&
	      set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 1,
		    PRIO(1) | 1ULL << 63) == -EINVAL, "sources are checked");
	CHECK(vcpu_word(&vm, VCPUS, 0) == (uint64_t)-ENXIO &&
	      vcpu_word(&vm, 0, 32) == (uint64_t)-ENXIO &&
	      vcpu_word(&vm, 0, 66) == (uint64_t)-ENXIO &&
	      set64(&vm, KVM_DEV_TRAPLESS_GRP_VCPU, 0, 1) == -EINVAL &&
	      set64(&vm, KVM_DEV_TRAPLESS_GRP_VCPU, 0,
		    2ULL << SOURCES) == -EINVAL &&
	      set64(&vm, KVM_DEV_TRAPLESS_GRP_VCPU, 2, 1) == -EINVAL &&
	      set64(&vm, KVM_DEV_TRAPLESS_GRP_VCPU, 65, 8) == -EINVAL,
	      "words of vCPUs are checked");
	CHECK(set64(&vm, KVM_DEV_TRAPLESS_GRP_GRANT, 0, 1) == -EINVAL &&
	      grant(&vm, 0, 1) == -EINVAL &&
	      grant(&vm, SOURCES, 2) == -EINVAL &&
	      grant(&vm, 1, 0xffff) == -EINVAL, "grants are checked");
	CHECK(irq_line(&vm, SOURCES + 1, 1) < 0 && irq_line(&vm, 5000, 1) < 0,
	      "lines are checked");
	destroy_vm(&vm);
}

static void test_grant(const char *self)
{
	char number[16];
	struct vm vm;
	void *result;
	pthread_t thread;
	pid_t child;
	int status;

	create_domain(&vm);
	CHECK(!inject(1), "no grant: SIGILL");
	CHECK(grant(&vm, 2, 3) == 0 &&
	      get64(&vm, KVM_DEV_TRAPLESS_GRP_GRANT, 0) == (3 << 16 | 2),
	      "grant of sources 2 to 4");
	CHECK(inject(2) && inject(4) && vcpu_word(&vm, 0, 0) == 0x14,
	      "both ends of the range are pending");
	CHECK(!inject(1) && !inject(5) && !inject(0) && !inject(0xffff),
	      "beside the range: SIGILL");
	CHECK(!inject(3ULL << 60) && !inject(4ULL << 60 | 2) &&
	      !inject(5ULL << 60 | 2) && !inject(15ULL << 60 | 2),
	      "other operations: SIGILL");
	CHECK(!inject_in_thread(2), "another thread: SIGILL");
	CHECK(!inject_in_child(2), "a child: SIGILL");
	sched_yield();
	usleep(1000);
	CHECK(inject(3), "the grant survives sleep");

	snprintf(number, sizeof(number), "%d", vm.dev);
	child = fork();
	if (!child) {
		/* The child's memory is its own: no grant even if it has the file */
		_exit(grant(&vm, 2, 1) == 0);
	}
	waitpid(child, &status, 0);
	CHECK(status == 0, "another process cannot use the device");

	CHECK(grant(&vm, 0, 0) == 0 && !inject(2), "given back: SIGILL");
	CHECK(grant(&vm, 0, 0) == -ENOENT, "nothing to give back");

	dying_vm = &vm;
	pthread_create(&thread, NULL, dying_thread, NULL);
	pthread_join(thread, &result);
	CHECK(result, "a thread dies with its grant");
	destroy_vm(&vm);

	/* A thread's grant does not reach the program that replaces it */
	fflush(stdout);
	child = fork();
	if (!child) {
		create_domain(&vm);
		if (grant(&vm, 2, 3) || !inject(2))
			_exit(2);
		execl(self, self, "exec", NULL);
		_exit(3);
	}
	waitpid(child, &status, 0);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0,
	      "after execve: SIGILL (%x)", status);
}

static void test_route(void)
{
	struct vm vm;

	create_domain(&vm);
	/* Enable bits of vCPU 0 */
	set64(&vm, KVM_DEV_TRAPLESS_GRP_VCPU, 1, 0x6);
	irq_line(&vm, 1, 1);
	CHECK(vcpu_word(&vm, 0, 0) == 2, "an edge is pending");
	CHECK(set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 1, PRIO(1) | 1) == 0 &&
	      vcpu_word(&vm, 0, 0) == 0 && vcpu_word(&vm, 0, 1) == 4 &&
	      vcpu_word(&vm, 1, 0) == 2 && vcpu_word(&vm, 1, 1) == 2,
	      "it moves with its source");
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 2, PRIO(1) | LEVEL);
	irq_line(&vm, 2, 1);
	CHECK(set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 2,
		    PRIO(1) | LEVEL | 1) == 0 && vcpu_word(&vm, 1, 0) == 6,
	      "so does a level");
	irq_line(&vm, 2, 0);
	CHECK(vcpu_word(&vm, 1, 0) == 2, "a lowered line is pending no more");
	CHECK(set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 1, 0) == 0 &&
	      vcpu_word(&vm, 1, 0) == 0, "a removed source is not pending");
	irq_line(&vm, 1, 1);
	CHECK(vcpu_word(&vm, 0, 0) == 0 && vcpu_word(&vm, 1, 0) == 0,
	      "and does not become so");
	set_reg(&vm.vcpus[0], SIP, SSIE);
	CHECK(vcpu_word(&vm, 0, 64) == 1 && get_reg(&vm.vcpus[0], SIP) == SSIE,
	      "sip and the file agree");
	set64(&vm, KVM_DEV_TRAPLESS_GRP_VCPU, 64, 0);
	CHECK(get_reg(&vm.vcpus[0], SIP) == 0, "both ways");
	destroy_vm(&vm);
}

static void test_guest(void)
{
	struct kvm_irqfd irqfd = { .gsi = 5 };
	struct kvm_irqfd resample = { .gsi = 6,
				      .flags = KVM_IRQFD_FLAG_RESAMPLE };
	volatile struct shared *a, *b;
	uint64_t one = 1, got;
	unsigned long before;
	struct vm vm;

	create_domain(&vm);
	a = vm.vcpus[0].shared;
	b = vm.vcpus[1].shared;
	/* Pending before the first KVM_RUN */
	irq_line(&vm, 1, 1);
	start(&vm.vcpus[0]);
	start(&vm.vcpus[1]);
	CHECK(reaches(&a->count[1], 1), "an edge that was pending before");
	CHECK(reaches(&b->rounds, 1), "both vCPUs run");
	CHECK(vcpu_word(&vm, 0, 0) == (uint64_t)-EBUSY,
	      "words of a running vCPU are refused");
	usleep(20000);
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], 2), "an edge for a sleeping vCPU");

	irqfd.fd = eventfd(0, 0);
	CHECK(ioctl(vm.fd, KVM_IRQFD, &irqfd) == 0, "irqfd");
	if (write(irqfd.fd, &one, 8) != 8)
		fatal("write to an eventfd");
	CHECK(reaches(&a->count[5], 1), "an irqfd interrupts");

	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 6, PRIO(1) | LEVEL | RESAMPLE | 1);
	resample.fd = eventfd(0, 0);
	resample.resamplefd = eventfd(0, EFD_NONBLOCK);
	CHECK(ioctl(vm.fd, KVM_IRQFD, &resample) == 0, "resample irqfd");
	if (write(resample.fd, &one, 8) != 8)
		fatal("write to an eventfd");
	CHECK(reaches(&b->count[6], 1), "a resample irqfd interrupts");
	usleep(20000);
	CHECK(read(resample.resamplefd, &got, 8) == 8 && got == 1,
	      "its completion is signalled once");
	CHECK(b->count[6] == 1, "and does not interrupt again");

	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 7, PRIO(1) | LEVEL);
	a->hold = 1;
	irq_line(&vm, 7, 1);
	CHECK(reaches(&a->count[7], 1), "a level");
	irq_line(&vm, 7, 0);
	a->hold = 0;
	usleep(20000);
	CHECK(a->count[7] == 1, "lowered before completion: once");
	a->hold = 1;
	irq_line(&vm, 7, 1);
	reaches(&a->count[7], 2);
	a->hold = 0;
	/* Again and again while the line is high */
	usleep(20000);
	CHECK(a->count[7] > 3, "pending again on completion");
	irq_line(&vm, 7, 0);
	/* What was claimed before is counted, too */
	usleep(20000);

	/* Moved between claim and completion */
	got = a->count[7];
	a->hold = 1;
	irq_line(&vm, 7, 1);
	reaches(&a->count[7], got + 1);
	b->hold = 1;
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 7, PRIO(1) | LEVEL | 1);
	usleep(20000);
	CHECK(b->count[7] == 0, "a claimed level is not pending elsewhere");
	a->hold = 0;
	CHECK(reaches(&b->count[7], 1), "completed, it is where it was moved to");
	irq_line(&vm, 7, 0);
	b->hold = 0;
	usleep(20000);
	CHECK(a->count[7] == got + 1 && b->count[7] == 1, "and only there");

	/* Software interrupts: 0 -> 1, by the instruction */
	usleep(20000);
	a->argument = 2;
	a->command = 1;
	irq_line(&vm, 1, 1);
	CHECK(reaches(&b->soft, 1), "sgenipi wakes a sleeping vCPU");
	/* Beyond the domain's vharts: nothing, and nothing breaks */
	a->argument = 0x400ULL << 32 | 0xffffffff;
	a->command = 1;
	irq_line(&vm, 1, 1);
	usleep(20000);
	CHECK(a->command == 0 && a->soft == 0 && b->soft == 1 &&
	      a->exceptions == 0, "sgenipi to nobody");
	a->argument = 0;
	a->command = 2;
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->exceptions, 1) && a->cause == 2,
	      "registers of the host are illegal for the guest");

	/*
	 * Something masked by sie is pending for a vCPU that waits: it must
	 * neither keep the host busy nor hide what comes next.
	 */
	b->sie = SEIE;
	set64(&vm, KVM_DEV_TRAPLESS_GRP_SOURCE, 2, PRIO(1) | 1);
	irq_line(&vm, 2, 1);
	reaches(&b->count[2], 1);
	usleep(20000);
	a->argument = 2;
	a->command = 1;
	irq_line(&vm, 1, 1);
	usleep(20000);
	before = notifications();
	usleep(100000);
	CHECK(notifications() - before < 5, "masked and pending: %lu notifications",
	      notifications() - before);
	CHECK(b->soft == 1, "it stays masked");
	irq_line(&vm, 2, 1);
	CHECK(reaches(&b->count[2], 2), "another interrupt gets through");
	b->sie = SEIE | SSIE;
	irq_line(&vm, 2, 1);
	CHECK(reaches(&b->soft, 2), "the masked one is taken when unmasked");

	/* Switch to native WFI and back while the guest runs */
	set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG,
	      KVM_DEV_TRAPLESS_CONFIG_NATIVE_WFI, 1);
	got = a->count[1];
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], got + 1), "native WFI");
	irq_line(&vm, 1, 1);
	CHECK(reaches(&a->count[1], got + 2), "wakes without an exit");
	set32(&vm, KVM_DEV_TRAPLESS_GRP_CONFIG,
	      KVM_DEV_TRAPLESS_CONFIG_NATIVE_WFI, 0);

	stop(&vm.vcpus[0]);
	stop(&vm.vcpus[1]);
	got = a->count[1];
	irq_line(&vm, 1, 1);
	CHECK(vcpu_word(&vm, 0, 0) == 2, "pending for a stopped vCPU");
	start(&vm.vcpus[0]);
	CHECK(reaches(&a->count[1], got + 1), "taken when it runs again");
	stop(&vm.vcpus[0]);
	close(irqfd.fd);
	close(resample.fd);
	close(resample.resamplefd);
	destroy_vm(&vm);
}

/* The guest of a VM without the device cannot use the instructions */
static void test_no_device(void)
{
	volatile struct shared *a;
	struct vm vm;

	create_vm(&vm);
	a = vm.vcpus[0].shared;
	start(&vm.vcpus[0]);
	CHECK(reaches(&a->rounds, 1) && a->exceptions == SOURCES && a->cause == 2,
	      "no device: vsenable is illegal");
	stop(&vm.vcpus[0]);
	destroy_vm(&vm);
}

/* Domains come back when their VMs end */
static void test_many(void)
{
	struct vm vm;
	int i;

	for (i = 0; i < 100; i++) {
		create_domain(&vm);
		destroy_vm(&vm);
	}
	CHECK(1, "100 VMs one after the other");
}

int main(int argc, char **argv)
{
	struct sigaction ill = { .sa_handler = on_sigill };
	struct sigaction usr1 = { .sa_handler = on_sigusr1 };

	sigaction(SIGILL, &ill, NULL);
	sigaction(SIGUSR1, &usr1, NULL);
	if (argc > 1)
		return inject(2);

	kvm = open("/dev/kvm", O_RDWR | O_CLOEXEC);
	if (kvm < 0)
		fatal("open /dev/kvm");
	if (ioctl(kvm, KVM_CHECK_EXTENSION, KVM_CAP_RISCV_TRAPLESS) <= 0) {
		printf("skip: KVM offers no Xtrapless\n");
		return 4;
	}

	test_device();
	test_grant(argv[0]);
	test_route();
	test_guest();
	test_no_device();
	test_many();
	printf("failures=%d\n", failures);

	return failures != 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_micro: what single operations cost that may leave the guest.
 *
 *	insmod trapless_micro.ko
 *	echo hypercall 10000 >/sys/module/trapless_micro/parameters/run
 *	cat /sys/module/trapless_micro/parameters/run
 *
 * The write returns when the operation has been done so often, on the CPU of
 * the writer.  The file then says
 *
 *	NAME COUNT NANOSECONDS
 *
 * with the time for all.  -EOPNOTSUPP: this machine does not have what the
 * operation needs.  See micro_ops for the operations.
 *
 * Only `claim` knows Xtrapless.  images/bare/micro.c does the same operations
 * without Linux.
 */

#define pr_fmt(fmt) "trapless_micro: " fmt

#include <linux/cpufeature.h>
#include <linux/delay.h>
#include <linux/hrtimer.h>
#include <linux/io.h>
#include <linux/irqchip/riscv-imsic.h>
#include <linux/kthread.h>
#include <linux/ktime.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/of_irq.h>
#include <linux/sched.h>
#include <linux/smp.h>
#include <linux/timex.h>
#include <asm/csr.h>
#include <asm/sbi.h>
#include <asm/xtrapless.h>

/* How far ahead deadlines are that nobody waits for, and those that somebody does */
#define MICRO_FAR	(1ULL << 40)
#define MICRO_SLEEP_NS	(50 * NSEC_PER_USEC)

/* 8250: a register without any effect */
#define UART_SCRATCH	7

/* PLIC: registers of its contexts */
#define PLIC_CONTEXTS	0x200000
#define PLIC_CONTEXT	0x1000
#define PLIC_CLAIM	4

/* Operations in a row with interrupts off */
#define MICRO_PART	100UL

struct micro_op {
	const char *name;
	/* Does it so often; returns ns, or an error */
	s64 (*run)(unsigned long count);
};

static DEFINE_MUTEX(micro_mutex);
static const struct micro_op *last_op;
static unsigned long last_count;
static s64 last_ns;

static void micro_ecall(unsigned long extension, unsigned long function,
			unsigned long arg)
{
	register unsigned long a0 asm("a0") = arg;
	register unsigned long a1 asm("a1") = 0;
	register unsigned long a6 asm("a6") = function;
	register unsigned long a7 asm("a7") = extension;

	asm volatile ("ecall" : "+r" (a0), "+r" (a1) : "r" (a6), "r" (a7) : "memory");
}

static s64 micro_hypercall(unsigned long count)
{
	ktime_t begin = ktime_get();

	while (count--)
		micro_ecall(SBI_EXT_BASE, SBI_EXT_BASE_GET_SPEC_VERSION, 0);

	return ktime_to_ns(ktime_sub(ktime_get(), begin));
}

/* Loads from a register of the first device that is compatible. */
static s64 micro_load(const char *compatible, unsigned int offset, bool byte,
		      unsigned long count)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, compatible);
	void __iomem *registers;
	ktime_t begin;
	s64 ns;

	if (!node)
		return -EOPNOTSUPP;
	registers = of_iomap(node, 0);
	of_node_put(node);
	if (!registers)
		return -EOPNOTSUPP;

	begin = ktime_get();
	while (count--) {
		if (byte)
			readb(registers + offset);
		else
			readl(registers + offset);
	}
	ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	iounmap(registers);

	return ns;
}

/* domaincfg of an APLIC, which is KVM's if there is one */
static s64 micro_io_kernel(unsigned long count)
{
	return micro_load("riscv,aplic", 0, false, count);
}

static s64 micro_io_user(unsigned long count)
{
	return micro_load("ns16550a", UART_SCRATCH, true, count);
}

static bool micro_has(const char *compatible)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, compatible);

	of_node_put(node);

	return node;
}

/* The registers of a PLIC with the claim register of this CPU at *@offset */
static void __iomem *micro_plic(unsigned long *offset)
{
	struct device_node *node = of_find_compatible_node(NULL, NULL, "riscv,plic0");
	struct device_node *cpu = of_get_cpu_node(smp_processor_id(), NULL);
	void __iomem *registers = NULL;
	struct of_phandle_args parent;
	unsigned int i;

	/* A context for each of its outputs */
	for (i = 0; node && cpu && !of_irq_parse_one(node, i, &parent); i++) {
		bool own = parent.np->parent == cpu && parent.args[0] == RV_IRQ_EXT;

		of_node_put(parent.np);
		if (!own)
			continue;
		registers = of_iomap(node, 0);
		*offset = PLIC_CONTEXTS + i * PLIC_CONTEXT + PLIC_CLAIM;
		break;
	}
	of_node_put(cpu);
	of_node_put(node);

	return registers;
}

/*
 * Claim and completion with nothing pending, as far as that can be had: the
 * threshold hides what is for the driver of the interrupt controller.  A PLIC
 * claims regardless of the threshold; its sources are levels, which are
 * pending again after their completion.
 */
static s64 micro_claim(unsigned long count)
{
	bool trapless = micro_has("trapless,irqchip");
	bool imsic = micro_has("riscv,imsics");
	void __iomem *plic = NULL;
	unsigned long offset = 0;
	ktime_t begin;
	s64 ns;

	migrate_disable();
	if (!trapless && !imsic) {
		plic = micro_plic(&offset);
		if (!plic) {
			migrate_enable();
			return -EOPNOTSUPP;
		}
		plic += offset;
	}

	begin = ktime_get();
	while (count) {
		/* Not longer than devices may wait */
		unsigned long part = min(count, MICRO_PART);
		unsigned long flags;

		count -= part;
		local_irq_save(flags);
		if (trapless) {
			csr_write(CSR_VSTHRESHOLD, XTL_VSTHRESHOLD_PRIO);
			while (part--) {
				csr_read(CSR_VSCLAIM);
				csr_write(CSR_VSCLAIM, 0);
			}
			csr_write(CSR_VSTHRESHOLD, 0);
		} else if (imsic) {
			csr_write(CSR_SISELECT, IMSIC_EITHRESHOLD);
			csr_write(CSR_SIREG, 1);
			while (part--)
				csr_swap(CSR_STOPEI, 0);
			csr_write(CSR_SISELECT, IMSIC_EITHRESHOLD);
			csr_write(CSR_SIREG, 0);
		} else {
			while (part--)
				writel_relaxed(readl_relaxed(plic), plic);
		}
		local_irq_restore(flags);
		cond_resched();
	}
	ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	migrate_enable();
	if (plic)
		iounmap(plic - offset);

	return ns;
}

static void micro_nothing(void *unused)
{
}

static int micro_spin(void *unused)
{
	while (!kthread_should_stop()) {
		cpu_relax();
		cond_resched();
	}

	return 0;
}

/* To another CPU and back: send, handler, answer. */
static s64 micro_call(unsigned long count)
{
	unsigned int here, there;
	ktime_t begin;
	s64 ns = 0;

	migrate_disable();
	here = smp_processor_id();
	there = cpumask_any_but(cpu_online_mask, here);
	if (there >= nr_cpu_ids) {
		ns = -EOPNOTSUPP;
	} else {
		begin = ktime_get();
		while (count--)
			smp_call_function_single(there, micro_nothing, NULL, 1);
		ns = ktime_to_ns(ktime_sub(ktime_get(), begin));
	}
	migrate_enable();

	return ns;
}

static s64 micro_ipi(unsigned long count)
{
	unsigned int there;
	struct task_struct *task;
	s64 ns;

	migrate_disable();
	there = cpumask_any_but(cpu_online_mask, smp_processor_id());
	if (there >= nr_cpu_ids) {
		migrate_enable();
		return -EOPNOTSUPP;
	}
	task = kthread_create_on_cpu(micro_spin, NULL, there, "micro_spin/%u");
	if (IS_ERR(task)) {
		migrate_enable();
		return PTR_ERR(task);
	}
	wake_up_process(task);
	ns = micro_call(count);
	kthread_stop(task);
	migrate_enable();

	return ns;
}

static void micro_set_timer(u64 time)
{
	if (riscv_isa_extension_available(NULL, SSTC))
		csr_write(CSR_STIMECMP, time);
	else
		micro_ecall(SBI_EXT_TIME, SBI_EXT_TIME_SET_TIMER, time);
}

/* As the kernel's clock event device does it, which finds its own deadline gone. */
static s64 micro_timer(unsigned long count)
{
	unsigned long flags;
	ktime_t begin;
	s64 ns;

	if (!IS_ENABLED(CONFIG_64BIT))
		return -EOPNOTSUPP;

	begin = ktime_get();
	while (count) {
		/* Not longer than ticks may wait */
		unsigned long part = min(count, MICRO_PART);

		count -= part;
		local_irq_save(flags);
		while (part--)
			micro_set_timer(get_cycles64() + MICRO_FAR);
		/* An interrupt without a cause makes it set its deadline again */
		micro_set_timer(get_cycles64());
		local_irq_restore(flags);
		cond_resched();
	}
	ns = ktime_to_ns(ktime_sub(ktime_get(), begin));

	return ns;
}

/* Time after the deadline until the thread runs, with the CPU in WFI before. */
static s64 micro_wake(unsigned long count)
{
	s64 late = 0;

	while (count--) {
		ktime_t until = ktime_add_ns(ktime_get(), MICRO_SLEEP_NS);

		set_current_state(TASK_UNINTERRUPTIBLE);
		schedule_hrtimeout(&until, HRTIMER_MODE_ABS);
		late += ktime_to_ns(ktime_sub(ktime_get(), until));
	}

	return late;
}

static const struct micro_op micro_ops[] = {
	/* SBI call that needs nothing: get_spec_version */
	{ "hypercall", micro_hypercall },
	/* Load from a register that KVM emulates */
	{ "io_kernel", micro_io_kernel },
	/* Load from a register that the VMM emulates */
	{ "io_user", micro_io_user },
	/* Interrupt of a device: claim and completion */
	{ "claim", micro_claim },
	/* IPI to a busy CPU, until it has answered through memory */
	{ "ipi", micro_ipi },
	/* The same to an idle one */
	{ "ipi_idle", micro_call },
	/* A deadline is set */
	{ "timer", micro_timer },
	/* From a deadline to the thread that waits for it on an idle CPU */
	{ "wake", micro_wake },
};

static int micro_set(const char *text, const struct kernel_param *parameter)
{
	unsigned long count;
	char name[16];
	unsigned int i;
	int ret = 0;
	s64 ns;

	if (sscanf(text, "%15s %lu", name, &count) != 2 || !count)
		return -EINVAL;
	for (i = 0; i < ARRAY_SIZE(micro_ops); i++) {
		if (!strcmp(micro_ops[i].name, name))
			break;
	}
	if (i == ARRAY_SIZE(micro_ops))
		return -EINVAL;

	mutex_lock(&micro_mutex);
	ns = micro_ops[i].run(count);
	if (ns < 0) {
		ret = ns;
	} else {
		last_op = &micro_ops[i];
		last_count = count;
		last_ns = ns;
	}
	mutex_unlock(&micro_mutex);

	return ret;
}

static int micro_get(char *buffer, const struct kernel_param *parameter)
{
	int length = 0;

	mutex_lock(&micro_mutex);
	if (last_op)
		length = sysfs_emit(buffer, "%s %lu %lld\n", last_op->name,
				    last_count, last_ns);
	mutex_unlock(&micro_mutex);

	return length;
}

static const struct kernel_param_ops micro_run_ops = {
	.set = micro_set,
	.get = micro_get,
};

module_param_cb(run, &micro_run_ops, NULL, 0600);
MODULE_PARM_DESC(run, "OPERATION COUNT: does it so often; read: the last one, its count and ns");

static int __init micro_init(void)
{
	return 0;
}
module_init(micro_init);

static void __exit micro_exit(void)
{
}
module_exit(micro_exit);

MODULE_DESCRIPTION("What operations cost that may leave the guest");
MODULE_LICENSE("GPL");

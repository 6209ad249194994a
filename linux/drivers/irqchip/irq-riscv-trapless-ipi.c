// SPDX-License-Identifier: GPL-2.0-only
/*
 * IPIs by the sgenipi CSR of Xtrapless, in a guest and on a host.
 *
 * The kernel's IPIs exist already when a module can be loaded: "IPI Mux"
 * interrupts on top of the software interrupt, sent by an SBI call for each
 * target.  This driver takes over sending: one CSR write reaches up to 32
 * harts, without firmware and without a trap.  Which IPIs a CPU owes is kept
 * in a word of its own; the receiver handles it after those that came the old
 * way, so none is lost at the change, and unloading gives everything back.
 *
 * Only for kernels without our patches: ipi_mux_create() and
 * riscv_ipi_set_virq_range() can be called by built-in code alone, and once.
 * The driver of the same name in linux/patches uses them.
 */

#define pr_fmt(fmt) "riscv-trapless-ipi: " fmt

#include <linux/bitfield.h>
#include <linux/cpu.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdesc.h>
#include <linux/irqdomain.h>
#include <linux/jump_label.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/percpu.h>
#include <linux/platform_device.h>
#include <linux/smp.h>
#include <linux/stop_machine.h>

#include <asm/csr.h>
#include <asm/sbi.h>
#include <asm/xtrapless.h>

#include "../compat.h"
#include "irq-riscv-trapless-ipi.h"

#define TRAPLESS_IPI_HARTS	32
#define TRAPLESS_IPI_MAX	BITS_PER_TYPE(int)

/**
 * struct trapless_ipi_cpu - IPIs of one CPU
 * @enable:	IPIs it handles
 * @bits:	IPIs sent to it and not handled yet
 * @hart:	its hart id
 * @raised:	times an interrupt was sent to it
 * @taken:	interrupts it took that were raised
 * @excess:	interrupts it took that nobody had raised
 */
struct trapless_ipi_cpu {
	atomic_t enable;
	atomic_t bits;
	unsigned long hart;
	atomic_long_t raised;
	unsigned long taken;
	unsigned long excess;
} ____cacheline_aligned_in_smp;

static DEFINE_PER_CPU(struct trapless_ipi_cpu, trapless_ipi_cpus);
static unsigned int trapless_ipi_virq[TRAPLESS_IPI_MAX];
static unsigned int trapless_ipi_count;
static struct irq_chip *trapless_ipi_old_chip;
static struct irq_chip trapless_ipi_chip;
static struct irq_desc *trapless_ipi_parent;
static irq_flow_handler_t trapless_ipi_old_handler;

/* Sends a software interrupt to harts @base + i for each bit i of @harts. */
static void trapless_ipi_raise(unsigned long base, u32 harts)
{
	/* What the IPI is about must be visible before the IPI. */
	wmb();
	csr_write(CSR_SGENIPI, FIELD_PREP(XTL_SGENIPI_BASE, base) |
			       FIELD_PREP(XTL_SGENIPI_MASK, harts));
}

static void trapless_ipi_send_mask(struct irq_data *d,
				   const struct cpumask *mask)
{
	u32 ibit = BIT(irqd_to_hwirq(d));
	unsigned long base = 0;
	unsigned int cpu;
	u32 harts = 0;

	for_each_cpu(cpu, mask) {
		struct trapless_ipi_cpu *icpu =
			per_cpu_ptr(&trapless_ipi_cpus, cpu);
		unsigned long pending;

		/* Ordered after what the IPI is about. */
		pending = atomic_fetch_or_release(ibit, &icpu->bits);
		/* Mirrors trapless_ipi_unmask(): one of the two raises it. */
		smp_mb__after_atomic();
		if ((pending & ibit) || !(atomic_read(&icpu->enable) & ibit))
			continue;

		if (harts && round_down(icpu->hart, TRAPLESS_IPI_HARTS) != base) {
			trapless_ipi_raise(base, harts);
			harts = 0;
		}
		base = round_down(icpu->hart, TRAPLESS_IPI_HARTS);
		harts |= BIT(icpu->hart - base);
		atomic_long_inc(&icpu->raised);
	}
	if (harts)
		trapless_ipi_raise(base, harts);
}

static void trapless_ipi_mask(struct irq_data *d)
{
	struct trapless_ipi_cpu *icpu = this_cpu_ptr(&trapless_ipi_cpus);

	atomic_andnot(BIT(irqd_to_hwirq(d)), &icpu->enable);
	trapless_ipi_old_chip->irq_mask(d);
}

static void trapless_ipi_unmask(struct irq_data *d)
{
	struct trapless_ipi_cpu *icpu = this_cpu_ptr(&trapless_ipi_cpus);
	u32 ibit = BIT(irqd_to_hwirq(d));

	atomic_or(ibit, &icpu->enable);
	/* Mirrors trapless_ipi_send_mask(): one of the two raises it. */
	smp_mb__after_atomic();
	if (atomic_read(&icpu->bits) & ibit) {
		atomic_long_inc(&icpu->raised);
		trapless_ipi_raise(icpu->hart, 1);
	}
	trapless_ipi_old_chip->irq_unmask(d);
}

/*
 * Several raised ones may merge into one that is taken, but each is counted
 * before it is raised: one taken that exceeds them came out of nothing.
 */
static void trapless_ipi_count_taken(struct trapless_ipi_cpu *icpu)
{
	if (likely(icpu->taken < atomic_long_read(&icpu->raised)))
		icpu->taken++;
	else
		icpu->excess++;
}

/**
 * riscv_trapless_ipi_excess - interrupts that no IPI accounts for
 *
 * Return: their number since the driver took over, on all CPUs.
 */
unsigned long riscv_trapless_ipi_excess(void)
{
	unsigned long sum = 0;
	unsigned int cpu;

	for_each_possible_cpu(cpu)
		sum += READ_ONCE(per_cpu(trapless_ipi_cpus, cpu).excess);
	return sum;
}
EXPORT_SYMBOL_GPL(riscv_trapless_ipi_excess);

static void trapless_ipi_handle(struct irq_desc *desc)
{
	struct trapless_ipi_cpu *icpu = this_cpu_ptr(&trapless_ipi_cpus);
	unsigned long hwirq, ipis;
	unsigned int enable;

	trapless_ipi_count_taken(icpu);
	/* Clears the software interrupt and handles what came the old way. */
	trapless_ipi_old_handler(desc);

	/* Whoever sets a bit that is not seen below raises the next one. */
	mb();
	enable = atomic_read(&icpu->enable);
	ipis = atomic_fetch_andnot(enable, &icpu->bits) & enable;
	for_each_set_bit(hwirq, &ipis, TRAPLESS_IPI_MAX)
		generic_handle_irq(trapless_ipi_virq[hwirq]);
}

static void trapless_ipi_set_chip(struct irq_chip *chip)
{
	unsigned int i;

	for (i = 0; i < trapless_ipi_count; i++)
		irq_set_chip(trapless_ipi_virq[i], chip);
}

static void trapless_ipi_set_handler(irq_flow_handler_t handler)
{
	unsigned long flags;

	raw_spin_lock_irqsave(&trapless_ipi_parent->lock, flags);
	trapless_ipi_parent->handle_irq = handler;
	raw_spin_unlock_irqrestore(&trapless_ipi_parent->lock, flags);
}

/* All other CPUs wait with interrupts off: none is inside a send or handler. */
static int trapless_ipi_take(void *unused)
{
	unsigned int cpu, i;

	/* Each CPU may have one on its way that was sent by the SBI. */
	for_each_possible_cpu(cpu)
		atomic_long_inc(&per_cpu(trapless_ipi_cpus, cpu).raised);

	for (i = 0; i < trapless_ipi_count; i++) {
		struct irq_data *d = irq_get_irq_data(trapless_ipi_virq[i]);
		struct irq_desc *desc = irq_data_to_desc(d);

		for_each_cpu(cpu, desc->percpu_enabled)
			atomic_or(BIT(i), &per_cpu(trapless_ipi_cpus, cpu).enable);
	}
	trapless_ipi_set_handler(trapless_ipi_handle);
	trapless_ipi_set_chip(&trapless_ipi_chip);
	return 0;
}

static int trapless_ipi_give_back(void *unused)
{
	unsigned long bits;
	unsigned int cpu;
	unsigned int i;

	trapless_ipi_set_chip(trapless_ipi_old_chip);
	trapless_ipi_set_handler(trapless_ipi_old_handler);
	for_each_possible_cpu(cpu) {
		bits = atomic_xchg(&per_cpu(trapless_ipi_cpus, cpu).bits, 0);
		for_each_set_bit(i, &bits, trapless_ipi_count)
			trapless_ipi_old_chip->ipi_send_mask(irq_get_irq_data(trapless_ipi_virq[i]),
							     cpumask_of(cpu));
	}
	return 0;
}

/* Finds the kernel's IPIs and the software interrupt below them. */
static int trapless_ipi_find(struct device *dev)
{
	struct irq_domain *intc, *mux = NULL;
	struct irq_data *d;
	unsigned int virq;

	intc = irq_find_matching_fwnode(riscv_get_intc_hwnode(),
					DOMAIN_BUS_ANY);
	d = intc ? irq_domain_get_irq_data(intc, irq_find_mapping(intc,
								  RV_IRQ_SOFT)) : NULL;
	if (!d)
		return dev_err_probe(dev, -ENODEV,
				     "IPIs are not software interrupts\n");
	trapless_ipi_parent = irq_data_to_desc(d);
	trapless_ipi_old_handler = trapless_ipi_parent->handle_irq;

	for (virq = 1; virq < irq_get_nr_irqs(); virq++) {
		d = irq_get_irq_data(virq);
		if (!d || !d->domain || d->domain->bus_token != DOMAIN_BUS_IPI)
			continue;
		if (!d->chip->ipi_send_mask || (mux && d->domain != mux) ||
		    irqd_to_hwirq(d) != trapless_ipi_count ||
		    trapless_ipi_count == TRAPLESS_IPI_MAX)
			return dev_err_probe(dev, -EBUSY,
					     "unknown kind of IPIs\n");
		mux = d->domain;
		trapless_ipi_old_chip = d->chip;
		trapless_ipi_virq[trapless_ipi_count++] = virq;
	}
	if (!trapless_ipi_count)
		return dev_err_probe(dev, -ENODEV, "the kernel has no IPIs\n");
	return 0;
}

static int trapless_ipi_find_harts(void)
{
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct device_node *node = of_get_cpu_node(cpu, NULL);
		u64 hart;
		int ret;

		if (!node)
			return -ENODEV;
		ret = of_property_read_reg(node, 0, &hart, NULL);
		of_node_put(node);
		if (ret)
			return ret;
		per_cpu(trapless_ipi_cpus, cpu).hart = hart;
	}
	return 0;
}

/*
 * Remote fences: the kernel leaves them to the SBI, a trap each, because with
 * SBI IPIs that is the cheaper way.
 */
static DEFINE_MUTEX(trapless_rfence_lock);
static bool trapless_rfence_wanted;
static bool trapless_rfence_taken;
static bool trapless_ipi_active;

static void trapless_rfence_update(void)
{
	bool take;

	lockdep_assert_held(&trapless_rfence_lock);
	take = trapless_rfence_wanted && trapless_ipi_active;
	if (take && !trapless_rfence_taken &&
	    static_key_enabled(&riscv_sbi_for_rfence)) {
		static_branch_disable(&riscv_sbi_for_rfence);
		trapless_rfence_taken = true;
	} else if (!take && trapless_rfence_taken) {
		static_branch_enable(&riscv_sbi_for_rfence);
		trapless_rfence_taken = false;
	}
}

static void trapless_ipi_set_active(bool active)
{
	mutex_lock(&trapless_rfence_lock);
	trapless_ipi_active = active;
	trapless_rfence_update();
	mutex_unlock(&trapless_rfence_lock);
}

static int rfence_set(const char *val, const struct kernel_param *kp)
{
	int ret;

	mutex_lock(&trapless_rfence_lock);
	ret = param_set_bool(val, kp);
	if (!ret)
		trapless_rfence_update();
	mutex_unlock(&trapless_rfence_lock);
	return ret;
}

static const struct kernel_param_ops rfence_ops = {
	.flags	= KERNEL_PARAM_OPS_FL_NOARG,
	.set	= rfence_set,
	.get	= param_get_bool,
};
module_param_cb(rfence, &rfence_ops, &trapless_rfence_wanted, 0644);
MODULE_PARM_DESC(rfence, "Remote fences go by IPI instead of an SBI call (default: off)");

static int counts_get(char *buffer, const struct kernel_param *kp)
{
	unsigned int cpu;
	int len = 0;

	for_each_possible_cpu(cpu) {
		struct trapless_ipi_cpu *icpu =
			per_cpu_ptr(&trapless_ipi_cpus, cpu);

		len += scnprintf(buffer + len, PAGE_SIZE - len, "%lu %lu %lu\n",
				 atomic_long_read(&icpu->raised),
				 READ_ONCE(icpu->taken),
				 READ_ONCE(icpu->excess));
	}
	return len;
}

static const struct kernel_param_ops counts_ops = {
	.get = counts_get,
};
module_param_cb(counts, &counts_ops, NULL, 0444);
MODULE_PARM_DESC(counts, "Per CPU: interrupts raised for it, taken by it, and taken without being raised");

static int __init trapless_ipi_probe(struct platform_device *pdev)
{
	int ret;

	if (trapless_ipi_count)
		return -EBUSY;
	ret = trapless_ipi_find_harts();
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "no hart id of a CPU\n");
	ret = trapless_ipi_find(&pdev->dev);
	if (ret)
		return ret;

	trapless_ipi_chip = *trapless_ipi_old_chip;
	trapless_ipi_chip.irq_mask = trapless_ipi_mask;
	trapless_ipi_chip.irq_unmask = trapless_ipi_unmask;
	trapless_ipi_chip.ipi_send_mask = trapless_ipi_send_mask;

	ret = stop_machine(trapless_ipi_take, NULL, NULL);
	if (ret)
		return ret;
	trapless_ipi_set_active(true);
	dev_info(&pdev->dev, "%u IPIs are sent by sgenipi\n",
		 trapless_ipi_count);
	return 0;
}

static void trapless_ipi_remove(struct platform_device *pdev)
{
	trapless_ipi_set_active(false);
	stop_machine(trapless_ipi_give_back, NULL, NULL);
}

static const struct of_device_id trapless_ipi_match[] = {
	{ .compatible = "trapless,ipi" },
	{}
};
MODULE_DEVICE_TABLE(of, trapless_ipi_match);

static struct platform_driver trapless_ipi_driver = {
	.remove = trapless_ipi_remove,
	.driver = {
		.name			= "riscv-trapless-ipi",
		.of_match_table		= trapless_ipi_match,
		.suppress_bind_attrs	= true,
	},
};
module_platform_driver_probe(trapless_ipi_driver, trapless_ipi_probe);

MODULE_DESCRIPTION("IPIs of RISC-V with Xtrapless");
MODULE_LICENSE("GPL");

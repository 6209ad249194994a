// SPDX-License-Identifier: GPL-2.0-only
/*
 * Guest side of Xtrapless: external interrupts of a virtual machine.
 *
 * A running vhart claims, completes, enables and disables its sources by CSRs
 * of its own, without a trap.  Only routing a source to another vhart asks the
 * hypervisor (an SBI call), because the routing table belongs to the host.
 *
 * A source is enabled in the file of the vhart it is routed to and nowhere
 * else.  Only that CPU can do it, so a request from another CPU is left in a
 * bitmap of the target CPU, which drains it in an asynchronous function
 * call.
 */

#define pr_fmt(fmt) "riscv-trapless: " fmt

#include <linux/bitmap.h>
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqchip/chained_irq.h>
#include <linux/irqdomain.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/platform_device.h>
#include <linux/slab.h>
#include <linux/smp.h>

#include <asm/csr.h>
#include <asm/sbi.h>
#include <asm/xtrapless.h>
#include <uapi/linux/kvm_trapless.h>

#define TRAPLESS_SBI_ROUTE	0

/**
 * struct trapless_source - one external interrupt source
 * @cpu:	CPU it is routed to
 * @enabled:	whether that CPU shall take it
 * @routed:	whether the hypervisor was told @cpu
 *
 * Written under the lock of the irq descriptor, read without it by the CPUs
 * that bring their hardware in line with it.
 */
struct trapless_source {
	unsigned int cpu;
	bool enabled;
	bool routed;
};

/**
 * struct trapless_cpu - requests of other CPUs to this one
 * @lock:	serializes the use of @csd
 * @csd:	call that drains the bitmap
 * @vhart:	hart id, which is the vhart's number
 * @sync:	sources whose enable bit is to be brought in line
 */
struct trapless_cpu {
	raw_spinlock_t lock;
	call_single_data_t csd;
	unsigned long vhart;
	DECLARE_BITMAP(sync, XTRAPLESS_MAX_SOURCES + 1);
};

static DEFINE_PER_CPU(struct trapless_cpu, trapless_cpus);
static struct trapless_source *trapless_sources;
static struct irq_domain *trapless_domain;
static unsigned int trapless_nr_sources;
static unsigned int trapless_parent_irq;

/* Brings the enable bit of one source in the file of this CPU in line. */
static void trapless_sync_source(unsigned long hwirq)
{
	struct trapless_source *source = &trapless_sources[hwirq];
	u64 value = FIELD_PREP(XTL_VSENABLE_ID, hwirq);

	if (READ_ONCE(source->enabled) &&
	    READ_ONCE(source->cpu) == smp_processor_id())
		value |= XTL_VSENABLE_E;
	csr_write(CSR_VSENABLE, value);
}

/* Runs on the CPU that @info belongs to, with interrupts off. */
static void trapless_drain(void *info)
{
	struct trapless_cpu *tcpu = info;
	unsigned long hwirq;

	/*
	 * The call's lock is free again: whoever finds it taken must have left
	 * the request where the loop below finds it.  Pairs with the barrier in
	 * trapless_request().
	 */
	smp_mb();
	for_each_set_bit(hwirq, tcpu->sync, trapless_nr_sources + 1)
		if (test_and_clear_bit(hwirq, tcpu->sync))
			trapless_sync_source(hwirq);
}

/* Brings the enable bit of one source in the file of any CPU in line. */
static void trapless_sync_on(unsigned int cpu, unsigned long hwirq)
{
	struct trapless_cpu *tcpu = per_cpu_ptr(&trapless_cpus, cpu);
	unsigned long flags;

	if (cpu == smp_processor_id()) {
		trapless_sync_source(hwirq);
		return;
	}

	set_bit(hwirq, tcpu->sync);
	/* Pairs with the barrier in trapless_drain(). */
	smp_mb__after_atomic();
	/*
	 * -EBUSY: a call that has not begun yet will see the bit.  -ENXIO: the
	 * CPU is offline and looks at all sources when it comes back.
	 */
	raw_spin_lock_irqsave(&tcpu->lock, flags);
	smp_call_function_single_async(cpu, &tcpu->csd);
	raw_spin_unlock_irqrestore(&tcpu->lock, flags);
}

static void trapless_irq_mask(struct irq_data *d)
{
	struct trapless_source *source = irq_data_get_irq_chip_data(d);

	WRITE_ONCE(source->enabled, false);
	trapless_sync_on(source->cpu, irqd_to_hwirq(d));
}

static void trapless_irq_unmask(struct irq_data *d)
{
	struct trapless_source *source = irq_data_get_irq_chip_data(d);

	WRITE_ONCE(source->enabled, true);
	trapless_sync_on(source->cpu, irqd_to_hwirq(d));
}

/* Reading vsclaim has cleared the pending bit already. */
static void trapless_irq_ack(struct irq_data *d)
{
}

/*
 * Also right on a CPU the source has left meanwhile: if its line is still high
 * it becomes pending where it is routed to now.
 */
static void trapless_irq_eoi(struct irq_data *d)
{
	csr_write(CSR_VSCLAIM, FIELD_PREP(XTL_VSCLAIM_ID, irqd_to_hwirq(d)));
}

static int trapless_irq_set_affinity(struct irq_data *d,
				     const struct cpumask *mask, bool force)
{
	struct trapless_source *source = irq_data_get_irq_chip_data(d);
	unsigned long hwirq = irqd_to_hwirq(d);
	unsigned int old = source->cpu;
	struct sbiret ret;
	unsigned int cpu;

	if (force)
		cpu = cpumask_first_and(mask, cpu_possible_mask);
	else
		cpu = cpumask_first_and(mask, cpu_online_mask);
	if (cpu >= nr_cpu_ids)
		return -EINVAL;

	if (!source->routed || cpu != old) {
		ret = sbi_ecall(KVM_SBI_EXT_TRAPLESS, TRAPLESS_SBI_ROUTE, hwirq,
				per_cpu(trapless_cpus, cpu).vhart, 0, 0, 0, 0);
		if (ret.error) {
			pr_warn_once("cannot route source %lu: SBI error %ld\n",
				     hwirq, ret.error);
			return sbi_err_map_linux_errno(ret.error);
		}
		source->routed = true;
		WRITE_ONCE(source->cpu, cpu);
		/* What is pending has moved and waits for the new enable bit. */
		trapless_sync_on(cpu, hwirq);
		if (cpu != old)
			trapless_sync_on(old, hwirq);
	}
	irq_data_update_effective_affinity(d, cpumask_of(cpu));

	return IRQ_SET_MASK_OK_DONE;
}

static int trapless_irq_set_type(struct irq_data *d, unsigned int type);

static struct irq_chip trapless_edge_chip = {
	.name			= "RISC-V trapless",
	.irq_ack		= trapless_irq_ack,
	.irq_mask		= trapless_irq_mask,
	.irq_unmask		= trapless_irq_unmask,
	.irq_set_affinity	= trapless_irq_set_affinity,
	.irq_set_type		= trapless_irq_set_type,
	.flags			= IRQCHIP_SKIP_SET_WAKE |
				  IRQCHIP_AFFINITY_PRE_STARTUP,
};

static struct irq_chip trapless_level_chip = {
	.name			= "RISC-V trapless",
	.irq_mask		= trapless_irq_mask,
	.irq_unmask		= trapless_irq_unmask,
	.irq_eoi		= trapless_irq_eoi,
	.irq_set_affinity	= trapless_irq_set_affinity,
	.irq_set_type		= trapless_irq_set_type,
	.flags			= IRQCHIP_SKIP_SET_WAKE |
				  IRQCHIP_AFFINITY_PRE_STARTUP,
};

/*
 * An edge may arrive on the new CPU while the old one still handles the last
 * one: handle_edge_irq() remembers it, handle_fasteoi_irq() would lose it.
 */
static int trapless_irq_set_type(struct irq_data *d, unsigned int type)
{
	switch (type) {
	case IRQ_TYPE_EDGE_RISING:
		irq_set_chip_handler_name_locked(d, &trapless_edge_chip,
						 handle_edge_irq, NULL);
		return IRQ_SET_MASK_OK;
	case IRQ_TYPE_LEVEL_HIGH:
		irq_set_chip_handler_name_locked(d, &trapless_level_chip,
						 handle_fasteoi_irq, NULL);
		return IRQ_SET_MASK_OK;
	default:
		return -EINVAL;
	}
}

static int trapless_domain_map(struct irq_domain *domain, unsigned int virq,
			       irq_hw_number_t hwirq)
{
	if (hwirq == 0 || hwirq > trapless_nr_sources)
		return -EINVAL;

	irq_domain_set_info(domain, virq, hwirq, &trapless_level_chip,
			    &trapless_sources[hwirq], handle_fasteoi_irq, NULL,
			    NULL);
	irq_set_noprobe(virq);
	irq_data_update_effective_affinity(irq_get_irq_data(virq),
					   cpumask_of(trapless_sources[hwirq].cpu));
	return 0;
}

static const struct irq_domain_ops trapless_domain_ops = {
	.map	= trapless_domain_map,
	.xlate	= irq_domain_xlate_twocell,
};

static void trapless_handle_irq(struct irq_desc *desc)
{
	struct irq_chip *chip = irq_desc_get_chip(desc);
	unsigned long hwirq;

	chained_irq_enter(chip, desc);

	while ((hwirq = csr_read(CSR_VSCLAIM)))
		if (unlikely(generic_handle_domain_irq(trapless_domain, hwirq)))
			pr_warn_ratelimited("no mapping for source %lu\n",
					    hwirq);

	chained_irq_exit(chip, desc);
}

/* The file of a CPU that starts may hold the enable bits of an earlier life. */
static int trapless_online_cpu(unsigned int cpu)
{
	struct trapless_cpu *tcpu = this_cpu_ptr(&trapless_cpus);
	unsigned long flags, hwirq;

	local_irq_save(flags);
	csr_write(CSR_VSTHRESHOLD, 0);
	for (hwirq = 1; hwirq <= trapless_nr_sources; hwirq++)
		trapless_sync_source(hwirq);
	trapless_drain(tcpu);
	local_irq_restore(flags);

	enable_percpu_irq(trapless_parent_irq,
			  irq_get_trigger_type(trapless_parent_irq));
	return 0;
}

/* Hart ids of all CPUs, and the CPU that sources are routed to at first. */
static int trapless_init_cpus(unsigned int *first)
{
	unsigned long lowest = ULONG_MAX;
	unsigned int cpu;

	for_each_possible_cpu(cpu) {
		struct trapless_cpu *tcpu = per_cpu_ptr(&trapless_cpus, cpu);
		struct device_node *node = of_get_cpu_node(cpu, NULL);
		u64 hartid;
		int ret;

		if (!node)
			return -ENODEV;
		ret = of_property_read_reg(node, 0, &hartid, NULL);
		of_node_put(node);
		if (ret)
			return ret;

		raw_spin_lock_init(&tcpu->lock);
		INIT_CSD(&tcpu->csd, trapless_drain, tcpu);
		tcpu->vhart = hartid;
		if (hartid < lowest) {
			lowest = hartid;
			*first = cpu;
		}
	}
	return 0;
}

static int __init trapless_probe(struct platform_device *pdev)
{
	struct fwnode_handle *fwnode = dev_fwnode(&pdev->dev);
	struct irq_domain *intc;
	unsigned int first = 0;
	unsigned int i;
	int ret;

	if (trapless_domain)
		return -EBUSY;

	ret = device_property_read_u32(&pdev->dev, "trapless,num-sources",
				       &trapless_nr_sources);
	if (ret)
		return dev_err_probe(&pdev->dev, ret,
				     "no property trapless,num-sources\n");
	if (trapless_nr_sources == 0 ||
	    trapless_nr_sources > XTRAPLESS_MAX_SOURCES)
		return dev_err_probe(&pdev->dev, -EINVAL,
				     "trapless,num-sources is not in 1..%d\n",
				     XTRAPLESS_MAX_SOURCES);

	ret = trapless_init_cpus(&first);
	if (ret)
		return dev_err_probe(&pdev->dev, ret, "no hart id of a CPU\n");

	intc = irq_find_matching_fwnode(riscv_get_intc_hwnode(),
					DOMAIN_BUS_ANY);
	if (!intc)
		return dev_err_probe(&pdev->dev, -ENODEV,
				     "no interrupt controller of the CPU\n");

	trapless_sources = kcalloc(trapless_nr_sources + 1,
				   sizeof(*trapless_sources), GFP_KERNEL);
	if (!trapless_sources)
		return -ENOMEM;
	for (i = 0; i <= trapless_nr_sources; i++)
		trapless_sources[i].cpu = first;

	trapless_parent_irq = irq_create_mapping(intc, RV_IRQ_EXT);
	if (!trapless_parent_irq) {
		ret = -ENOMEM;
		goto free_sources;
	}

	trapless_domain = irq_domain_create_linear(fwnode,
						   trapless_nr_sources + 1,
						   &trapless_domain_ops, NULL);
	if (!trapless_domain) {
		ret = -ENOMEM;
		goto free_sources;
	}

	irq_set_chained_handler(trapless_parent_irq, trapless_handle_irq);
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN,
				"irqchip/riscv/trapless:online",
				trapless_online_cpu, NULL);
	if (ret < 0)
		goto remove_domain;

	dev_info(&pdev->dev, "%u sources for %u CPUs\n", trapless_nr_sources,
		 num_possible_cpus());
	return 0;

remove_domain:
	irq_set_chained_handler(trapless_parent_irq, NULL);
	irq_domain_remove(trapless_domain);
	trapless_domain = NULL;
free_sources:
	kfree(trapless_sources);
	return ret;
}

static const struct of_device_id trapless_match[] = {
	{ .compatible = "trapless,irqchip" },
	{}
};
MODULE_DEVICE_TABLE(of, trapless_match);

static struct platform_driver trapless_driver = {
	.driver = {
		.name			= "riscv-trapless",
		.of_match_table		= trapless_match,
		.suppress_bind_attrs	= true,
	},
};

static int __init trapless_init(void)
{
	return platform_driver_probe(&trapless_driver, trapless_probe);
}
module_init(trapless_init);
/* No module_exit(): devices that hold interrupts do not hold the module. */

MODULE_DESCRIPTION("External interrupts of a RISC-V VM with Xtrapless");
MODULE_LICENSE("GPL");

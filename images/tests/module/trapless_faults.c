// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_faults: mistakes that KVM must not make, for the system tests.
 *
 *	missing=1	vhart 0 of domain 1 is missing in its table; missing=0 puts
 *			it back
 *	twice=N		the CPU that writes attaches the vCPU of CPU N for a moment,
 *			and looks it up
 *	event=ADDRESS	the CPU that writes posts an event at a physical address
 *	overflow=N	the queue of the CPU that writes has two entries while vharts
 *			0 to N - 1 of domain 1 get a software interrupt each
 *	sstateen0	(read only) that register of the CPU that reads
 */

#include <linux/bitfield.h>
#include <linux/gfp.h>
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/module.h>
#include <linux/smp.h>

#include <asm/csr.h>
#include <asm/haiov.h>
#include <asm/xtrapless.h>

static u64 *trapless_vhart(unsigned int domain, unsigned int vhart)
{
	unsigned long base = csr_read(CSR_HVTABLEBASE) & XTL_HVTABLEBASE_PPN;
	u64 *entry = phys_to_virt(base + domain * XTL_DOMAIN_SIZE);

	return (u64 *)phys_to_virt(entry[XTL_DOMAIN_VHART_TABLE / sizeof(u64)]) +
	       vhart;
}

static int missing_set(const char *val, const struct kernel_param *kp)
{
	u64 *entry = trapless_vhart(1, 0);
	bool missing;
	int ret;

	ret = kstrtobool(val, &missing);
	if (ret)
		return ret;
	if (missing)
		WRITE_ONCE(*entry, *entry & ~XTL_VHART_ENTRY_V);
	else
		WRITE_ONCE(*entry, *entry | XTL_VHART_ENTRY_V);
	/* The lookups that follow see it */
	mb();

	return 0;
}

static const struct kernel_param_ops missing_ops = { .set = missing_set };
module_param_cb(missing, &missing_ops, NULL, 0200);
MODULE_PARM_DESC(missing, "Take vhart 0 of domain 1 out of its table");

static void read_slot(void *slot)
{
	*(u64 *)slot = csr_read(CSR_HIFMAP);
}

static int twice_set(const char *val, const struct kernel_param *kp)
{
	unsigned int cpu;
	u64 slot;
	int ret;

	ret = kstrtouint(val, 0, &cpu);
	if (ret)
		return ret;

	preempt_disable();
	ret = smp_call_function_single(cpu, read_slot, &slot, 1);
	if (!ret && !(slot & XTL_HIFMAP_V))
		ret = -EAGAIN;
	if (!ret) {
		csr_write(CSR_HIFMAP, slot);
		csr_write(CSR_HGENVSI, FIELD_PREP(XTL_HGENVSI_OP, XTL_OP_EVAL) |
			  FIELD_PREP(XTL_HGENVSI_DOM, FIELD_GET(XTL_HIFMAP_DOM, slot)) |
			  FIELD_PREP(XTL_HGENVSI_ID, FIELD_GET(XTL_HIFMAP_VHART, slot)));
		csr_write(CSR_HIFMAP, 0);
	}
	preempt_enable();

	return ret;
}

static const struct kernel_param_ops twice_ops = { .set = twice_set };
module_param_cb(twice, &twice_ops, NULL, 0200);
MODULE_PARM_DESC(twice, "Attach the vCPU of this CPU here, too");

/* Entries are 8 bytes, a queue is aligned to its size, and begins on a page */
#define FEW_ORDER	1

static int overflow_set(const char *val, const struct kernel_param *kp)
{
	unsigned long flags, base, queue;
	unsigned int number, i;
	int ret;

	ret = kstrtouint(val, 0, &number);
	if (ret)
		return ret;
	queue = get_zeroed_page(GFP_KERNEL);
	if (!queue)
		return -ENOMEM;

	preempt_disable();
	local_irq_save(flags);
	base = csr_read(CSR_HNQBASE);
	csr_write(CSR_HNQBASE, XTL_HNQBASE_EN | virt_to_phys((void *)queue) |
			       FEW_ORDER);
	for (i = 0; i < number; i++)
		csr_write(CSR_HGENVSI, FIELD_PREP(XTL_HGENVSI_OP, XTL_OP_SOFT) |
			  FIELD_PREP(XTL_HGENVSI_DOM, 1) |
			  FIELD_PREP(XTL_HGENVSI_ID, i));
	if (!(csr_read(CSR_SIP) & BIT(XTRAPLESS_NOTIFY_IRQ)))
		ret = -EAGAIN;
	local_irq_restore(flags);
	/* KVM has read it when interrupts are disabled again */
	local_irq_save(flags);
	if (csr_read(CSR_SIP) & BIT(XTRAPLESS_NOTIFY_IRQ))
		ret = -EBUSY;
	csr_write(CSR_HNQBASE, base);
	local_irq_restore(flags);
	preempt_enable();
	free_page(queue);

	return ret;
}

static const struct kernel_param_ops overflow_ops = { .set = overflow_set };
module_param_cb(overflow, &overflow_ops, NULL, 0200);
MODULE_PARM_DESC(overflow, "Interrupt so many vCPUs while the queue is small");

static int event_set(const char *val, const struct kernel_param *kp)
{
	u64 address;
	int ret;

	ret = kstrtou64(val, 0, &address);
	if (ret)
		return ret;
	csr_write(CSR_HGENVEI, address);

	return 0;
}

static const struct kernel_param_ops event_ops = { .set = event_set };
module_param_cb(event, &event_ops, NULL, 0200);
MODULE_PARM_DESC(event, "Post an event at this physical address");

static int sstateen0_get(char *buffer, const struct kernel_param *kp)
{
	return sysfs_emit(buffer, "%lu\n", csr_read(CSR_SSTATEEN0));
}

static const struct kernel_param_ops sstateen0_ops = { .get = sstateen0_get };
module_param_cb(sstateen0, &sstateen0_ops, NULL, 0400);
MODULE_PARM_DESC(sstateen0, "The register of the CPU that reads");

MODULE_DESCRIPTION("Mistakes of a host, for the system tests of Xtrapless");
MODULE_LICENSE("GPL");

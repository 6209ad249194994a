// SPDX-License-Identifier: GPL-2.0-only
/*
 * trapless_suspend: a CPU that loses its registers of Xtrapless, for the system
 * tests. insmod does on CPU cpu=N what cpuidle does around a non-retentive suspend
 * (SBI HSM), without the suspend: what the hart would lose is cleared instead.
 *
 * hideleg and hcounteren would be lost, too, and so would hie.SGEIE on AIA. KVM
 * writes them when it enables virtualization on a CPU, which it does after a
 * suspend of the whole machine (syscore), but not after cpuidle; so does stock
 * KVM (hedeleg it writes with each vCPU). They stay as they are here: the test is
 * of what Xtrapless adds.
 */

#include <linux/cpu_pm.h>
#include <linux/module.h>
#include <linux/workqueue.h>

#include <asm/csr.h>
#include <asm/xtrapless.h>

static unsigned int cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "CPU that is suspended (default 1)");

static long suspend(void *unused)
{
	unsigned long flags;
	int ret;

	local_irq_save(flags);
	ret = cpu_pm_enter();
	if (!ret) {
		csr_write(CSR_HVTABLEBASE, 0);
		csr_write(CSR_HIFMAP, 0);
		csr_write(CSR_HTLCFG, 0);
		csr_write(CSR_HNQBASE, 0);
		csr_write(CSR_HGRANT, 0);
		csr_write(CSR_HIE, 0);
		ret = cpu_pm_exit();
	}
	local_irq_restore(flags);

	return ret;
}

static int __init suspend_init(void)
{
	return work_on_cpu(cpu, suspend, NULL);
}
module_init(suspend_init);

static void __exit suspend_exit(void)
{
}
module_exit(suspend_exit);

MODULE_DESCRIPTION("Suspend that loses registers, for the system tests of Xtrapless");
MODULE_LICENSE("GPL");

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
#include <linux/delay.h>
#include <linux/module.h>
#include <linux/timex.h>
#include <linux/workqueue.h>

#include <asm/csr.h>
#include <asm/haiov.h>
#include <asm/xtrapless.h>

static unsigned int cpu = 1;
module_param(cpu, uint, 0444);
MODULE_PARM_DESC(cpu, "CPU that is suspended (default 1)");

static unsigned int ms;
module_param(ms, uint, 0444);
MODULE_PARM_DESC(ms, "For how long (default 0); an interrupt other than the timer's ends it");

static bool haiov;
module_param(haiov, bool, 0444);
MODULE_PARM_DESC(haiov, "It loses its registers of HA-IOV, too");

static bool here;
module_param(here, bool, 0444);
MODULE_PARM_DESC(here, "The thread that calls insmod does it, on its CPU");

static bool restless;
module_param(restless, bool, 0444);
MODULE_PARM_DESC(restless, "Result: what a guest has left pending would have ended the suspend");

static bool grant_lost;
module_param(grant_lost, bool, 0444);
MODULE_PARM_DESC(grant_lost, "Result: hgrant of the thread was not what it had been");

/* Something is pending for the guest that ran last, which waits for that. */
static void leave_pending(void)
{
	csr_write(CSR_VSIE, BIT(RV_IRQ_EXT));
	csr_write(CSR_HVIP, BIT(IRQ_VS_EXT));
}

static void sleep(unsigned long enabled)
{
	u64 until = get_cycles64() + (u64)ms * riscv_timebase / MSEC_PER_SEC;

	enabled &= ~BIT(RV_IRQ_TIMER);
	while (!(csr_read(CSR_SIP) & enabled) && get_cycles64() < until)
		cpu_relax();
}

static long suspend(void *unused)
{
	unsigned long flags, grant, enabled = csr_read(CSR_SIE);
	int ret;

	local_irq_save(flags);
	grant = csr_read(CSR_HGRANT);
	leave_pending();
	ret = cpu_pm_enter();
	if (!ret) {
		restless = csr_read(CSR_HIP) & csr_read(CSR_HIE) &
			   BIT(IRQ_VS_EXT);
		csr_write(CSR_HVTABLEBASE, 0);
		csr_write(CSR_HIFMAP, 0);
		csr_write(CSR_HTLCFG, 0);
		csr_write(CSR_HNQBASE, 0);
		csr_write(CSR_HGRANT, 0);
		csr_write(CSR_HIE, 0);
		if (haiov) {
			csr_write(CSR_HVEITAB, 0);
			csr_write(CSR_HVEIQ, 0);
			csr_write(CSR_HUCSAVE, 0);
			csr_write(CSR_HUCSHARE, 0);
		}
		sleep(enabled);
		ret = cpu_pm_exit();
	}
	grant_lost = csr_read(CSR_HGRANT) != grant;
	local_irq_restore(flags);

	return ret;
}

static int __init suspend_init(void)
{
	return here ? suspend(NULL) : work_on_cpu(cpu, suspend, NULL);
}
module_init(suspend_init);

static void __exit suspend_exit(void)
{
}
module_exit(suspend_exit);

MODULE_DESCRIPTION("Suspend that loses registers, for the system tests of Xtrapless");
MODULE_LICENSE("GPL");

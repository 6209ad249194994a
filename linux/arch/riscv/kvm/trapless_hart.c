// SPDX-License-Identifier: GPL-2.0-only
/*
 * Xtrapless on the harts of the host: found at boot, brought up with
 * virtualization on each hart, and again where a low-power state has cost the
 * hart its registers.
 */

#include <linux/cpu_pm.h>
#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/of.h>
#include <asm/cpufeature.h>
#include <asm/kvm_trapless.h>

#include "trapless.h"

static bool trapless = true;
module_param(trapless, bool, 0444);
MODULE_PARM_DESC(trapless, "Use the trap-less interrupt controller if there is one");

DEFINE_STATIC_KEY_FALSE(kvm_riscv_trapless_available);

/* Write the registers of this hart, whatever they hold. */
static int trapless_start(void)
{
	/*
	 * Another kernel may have left anything here, if it was not shut down.
	 * Without its tables the controller forgets the vCPU that was attached
	 * instead of writing to its file: that memory belongs to somebody else.
	 */
	csr_write(CSR_HVTABLEBASE, 0);
	csr_write(CSR_HTLCFG, 0);
	csr_write(CSR_HIFMAP, 0);
	csr_write(CSR_HGRANT, 0);
	csr_write(CSR_HNQBASE, 0);
	/* What user mode may reach with ugenvsei, hgrant says */
	if (riscv_has_extension_unlikely(RISCV_ISA_EXT_SMSTATEEN))
		csr_set(CSR_SSTATEEN0, TRAPLESS_STATEEN0_C);
	csr_write(CSR_VSTIMECMP, -1UL);
	csr_write(CSR_HVTABLEBASE, kvm_riscv_trapless_tables());

	return kvm_riscv_trapless_notify_start();
}

/* Bring the extension up on this hart. */
int kvm_riscv_trapless_enable(void)
{
	int ret;

	if (!kvm_riscv_trapless_available())
		return 0;

	ret = trapless_start();
	if (ret) {
		kvm_err("Xtrapless does not come up on CPU%d\n",
			raw_smp_processor_id());
		return ret;
	}
	kvm_riscv_trapless_notify_enable();

	return 0;
}

void kvm_riscv_trapless_disable(void)
{
	if (!kvm_riscv_trapless_available())
		return;

	/* No vCPU is attached, unless the machine is about to go down */
	csr_write(CSR_HIFMAP, 0);
	csr_write(CSR_HGRANT, 0);
	kvm_riscv_trapless_notify_disable();
	/*
	 * hvtablebase stays: interrupts of devices are moved away later, and
	 * until then their handlers inject from here.
	 */
}

static void trapless_clear_tables(void *unused)
{
	csr_write(CSR_HVTABLEBASE, 0);
}

/*
 * The idle thread, or the last thread on the way to a suspend, is about to put
 * this CPU into a state that may cost it its registers, or back from it.
 * Interrupts are disabled and no vCPU is attached.
 */
static int trapless_cpu_pm(struct notifier_block *nb, unsigned long action,
			   void *unused)
{
	if (!kvm_riscv_trapless_notify_enabled())
		return NOTIFY_OK;

	switch (action) {
	case CPU_PM_ENTER:
		/* Notifications go to other CPUs, unless some are here already */
		if (kvm_riscv_trapless_notify_close())
			return NOTIFY_OK;
		trapless_start();
		return NOTIFY_BAD;
	case CPU_PM_ENTER_FAILED:
	case CPU_PM_EXIT:
		WARN_ON_ONCE(trapless_start());
		break;
	}

	return NOTIFY_OK;
}

static struct notifier_block trapless_cpu_pm_nb = {
	.notifier_call = trapless_cpu_pm,
};

static bool __init trapless_probe(void)
{
	struct device_node *node;
	bool found;

	if (!trapless || !IS_ENABLED(CONFIG_64BIT))
		return false;

	node = of_find_compatible_node(NULL, NULL,
				       "trapless,virtual-interrupts");
	found = of_device_is_available(node);
	of_node_put(node);
	if (!found)
		return false;

	/*
	 * The timer of the guest is vstimecmp, and with the AIA the kernel's
	 * interrupt entry asks stopi, which does not know of Xtrapless.
	 */
	if (!riscv_isa_extension_available(NULL, SSTC) ||
	    riscv_isa_extension_available(NULL, SxAIA)) {
		kvm_info("Xtrapless needs Sstc and a machine without AIA, not used\n");
		return false;
	}

	return true;
}

int __init kvm_riscv_trapless_init(void)
{
	int ret;

	if (!trapless_probe())
		return -ENODEV;

	ret = kvm_riscv_trapless_tables_init();
	if (ret)
		return ret;

	ret = kvm_riscv_trapless_notify_init();
	if (ret)
		goto exit_tables;

	ret = kvm_riscv_trapless_grant_init();
	if (ret)
		goto exit_notify;

	ret = kvm_register_device_ops(&kvm_riscv_trapless_device_ops,
				      KVM_DEV_TYPE_RISCV_TRAPLESS);
	if (ret)
		goto exit_grant;

	cpu_pm_register_notifier(&trapless_cpu_pm_nb);
	static_branch_enable(&kvm_riscv_trapless_available);

	return 0;

exit_grant:
	kvm_riscv_trapless_grant_exit();
exit_notify:
	kvm_riscv_trapless_notify_exit();
exit_tables:
	kvm_riscv_trapless_tables_exit();
	return ret;
}

/* Called when virtualization has been disabled on all CPUs. */
void kvm_riscv_trapless_exit(void)
{
	if (!kvm_riscv_trapless_available())
		return;

	cpu_pm_unregister_notifier(&trapless_cpu_pm_nb);
	kvm_unregister_device_ops(KVM_DEV_TYPE_RISCV_TRAPLESS);
	kvm_riscv_trapless_grant_exit();
	kvm_riscv_trapless_notify_exit();
	/* CPUs that are off line inject nothing, and get tables before they do */
	on_each_cpu(trapless_clear_tables, NULL, 1);
	kvm_riscv_trapless_tables_exit();
}

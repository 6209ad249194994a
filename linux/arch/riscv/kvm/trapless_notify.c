// SPDX-License-Identifier: GPL-2.0-only
/*
 * Interrupts that trap-less virtual interrupts cause in the host
 *
 * VS-level interrupts 2, 6 and 10 at V = 0: something arrived for the vCPU that
 * is paused on this hart. Interrupt 24: the controller has put a notification
 * about a detached vCPU into the queue of this hart.
 */

#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/kvm_host.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/workqueue.h>
#include <asm/kvm_trapless.h>

#include "trapless.h"

/* One page of 8-byte entries for each hart */
#define TRAPLESS_QUEUE_ORDER	(PAGE_SHIFT - 3)

/* Notifications handled at a time, before others get a chance on the hart */
#define TRAPLESS_NOTIFY_BUDGET	32

static bool notify_any;
module_param(notify_any, bool, 0444);
MODULE_PARM_DESC(notify_any, "Let notifications go to any hart, whatever the vCPU's state");

struct trapless_cpu {
	unsigned long queue;
	/* Virtualization is enabled on this CPU */
	bool enabled;
};

static DEFINE_PER_CPU(struct trapless_cpu, trapless_cpus);
/* CPUs on which virtualization is enabled */
static atomic_t trapless_nr_queues;

static struct workqueue_struct *trapless_wq;

/*
 * Look at every vCPU: notifications have been lost. Each of them stood for
 * something that is still in memory.
 */
static void trapless_scan(struct work_struct *work)
{
	unsigned int domain, nr_domains = kvm_riscv_trapless_nr_domains();
	struct kvm_vcpu *vcpu;
	unsigned long i;
	struct kvm *kvm;

	for (domain = 1; domain <= nr_domains; domain++) {
		rcu_read_lock();
		kvm = kvm_riscv_trapless_find_vm(domain);
		if (kvm && kvm_riscv_trapless_initialized(kvm)) {
			kvm_for_each_vcpu(i, vcpu, kvm)
				kvm_riscv_vcpu_trapless_notified(vcpu);
			kvm_riscv_trapless_resample(kvm);
		}
		rcu_read_unlock();
	}
}

static DECLARE_WORK(trapless_scan_work, trapless_scan);

static void trapless_handle(u64 notification)
{
	unsigned int kind = FIELD_GET(XTL_HNOTIFY_KIND, notification);
	u32 id = FIELD_GET(XTL_HNOTIFY_ID, notification);
	struct kvm_vcpu *vcpu;
	struct kvm *kvm;

	/*
	 * A notification about a VM that is gone finds nobody or a successor,
	 * which is not harmed by looking at its file once more.
	 */
	kvm = kvm_riscv_trapless_find_vm(FIELD_GET(XTL_HNOTIFY_DOM,
						   notification));
	if (!kvm || !kvm_riscv_trapless_initialized(kvm))
		return;

	if (kind == XTL_KIND_RESAMPLE) {
		/*
		 * An eventfd takes locks that may sleep with PREEMPT_RT. Until
		 * its turn comes, the source's bit keeps further completions
		 * from being notified.
		 */
		queue_work(system_bh_highpri_wq, &kvm->arch.trapless.resample);
		return;
	}

	vcpu = kvm_get_vcpu_by_id(kvm, id);
	if (vcpu)
		kvm_riscv_vcpu_trapless_notified(vcpu);
}

/* Handle up to @budget notifications; returns the number of those there were. */
static unsigned int trapless_drain(unsigned int budget)
{
	unsigned int count;
	u64 notification;

	rcu_read_lock();
	for (count = 0; count < budget; count++) {
		notification = csr_read(CSR_HNOTIFY);
		if (notification & XTL_HNOTIFY_OVF)
			queue_work(trapless_wq, &trapless_scan_work);
		if (!(notification & XTL_HNOTIFY_V))
			break;
		trapless_handle(notification);
	}
	rcu_read_unlock();

	return count;
}

static irqreturn_t trapless_notify_interrupt(int irq, void *dev_id)
{
	/* The interrupt stays pending until the queue is empty */
	trapless_drain(TRAPLESS_NOTIFY_BUDGET);

	return IRQ_HANDLED;
}

/* Something arrived for the vCPU which is paused on this hart. */
static void trapless_paused(void)
{
	struct kvm_vcpu *vcpu = kvm_get_running_vcpu();

	if (!vcpu)
		return;

	vcpu->stat.trapless_paused++;
	if (kvm_vcpu_wake_up(vcpu))
		vcpu->stat.trapless_wakeups++;
}

static irqreturn_t trapless_soft_interrupt(int irq, void *dev_id)
{
	csr_clear(CSR_HIP, BIT(IRQ_VS_SOFT));
	trapless_paused();

	return IRQ_HANDLED;
}

static irqreturn_t trapless_external_interrupt(int irq, void *dev_id)
{
	csr_clear(CSR_HIP, BIT(IRQ_VS_EXT));
	trapless_paused();

	return IRQ_HANDLED;
}

static irqreturn_t trapless_timer_interrupt(int irq, void *dev_id)
{
	struct kvm_vcpu *vcpu = kvm_get_running_vcpu();

	/* High until the guest sets its timer anew: once is enough */
	csr_clear(CSR_HIE, BIT(IRQ_VS_TIMER));
	if (vcpu)
		to_trapless(vcpu)->timer_armed = false;
	trapless_paused();

	return IRQ_HANDLED;
}

/*
 * VS-level interrupts are masked in hie; the chip of the hart's interrupts knows
 * sie only. A kernel that is about to start another one after a panic masks all
 * interrupts through their chips. The next kernel clears sie, but knows nothing
 * of hie: a guest's timer that expires would interrupt it for ever.
 */
static void trapless_vs_mask(struct irq_data *d)
{
	csr_clear(CSR_HIE, BIT(d->hwirq));
}

static void trapless_vs_unmask(struct irq_data *d)
{
	csr_set(CSR_HIE, BIT(d->hwirq));
}

/* Each handler lowers what has interrupted */
static void trapless_vs_eoi(struct irq_data *d)
{
}

static struct irq_chip trapless_vs_chip = {
	.name		= "Xtrapless",
	.irq_mask	= trapless_vs_mask,
	.irq_unmask	= trapless_vs_unmask,
	.irq_eoi	= trapless_vs_eoi,
};

static struct trapless_irq {
	unsigned int hwirq;
	irq_handler_t handler;
	const char *name;
	struct irq_chip *chip;
	unsigned int irq;
} trapless_irqs[] = {
	{ XTRAPLESS_NOTIFY_IRQ, trapless_notify_interrupt, "kvm-notify" },
	{ IRQ_VS_SOFT, trapless_soft_interrupt, "kvm-vs-soft",
	  &trapless_vs_chip },
	{ IRQ_VS_TIMER, trapless_timer_interrupt, "kvm-vs-timer",
	  &trapless_vs_chip },
	{ IRQ_VS_EXT, trapless_external_interrupt, "kvm-vs-ext",
	  &trapless_vs_chip },
};

/* Switch the extension on, open the queue and enable what arrives at V = 0. */
int kvm_riscv_trapless_notify_start(void)
{
	struct trapless_cpu *tc = this_cpu_ptr(&trapless_cpus);
	unsigned long config = XTL_HTLCFG_EN | (notify_any ? XTL_HTLCFG_ANY : 0);

	csr_write(CSR_HTLCFG, config);
	if ((csr_read(CSR_HTLCFG) & config) != config)
		return -EIO;

	csr_write(CSR_HNQBASE, XTL_HNQBASE_EN | virt_to_phys((void *)tc->queue) |
		  TRAPLESS_QUEUE_ORDER);

	csr_clear(CSR_HIP, BIT(IRQ_VS_SOFT) | BIT(IRQ_VS_EXT));
	csr_set(CSR_HIE, BIT(IRQ_VS_SOFT) | BIT(IRQ_VS_EXT));

	return 0;
}

/*
 * Close the queue and handle what is in it: true, or there were notifications,
 * so that the CPU has something to do.
 */
bool kvm_riscv_trapless_notify_close(void)
{
	unsigned int count;

	csr_write(CSR_HNQBASE, 0);
	count = trapless_drain(BIT(TRAPLESS_QUEUE_ORDER));
	csr_write(CSR_HTLCFG, 0);

	return !count;
}

bool kvm_riscv_trapless_notify_enabled(void)
{
	return this_cpu_read(trapless_cpus.enabled);
}

void kvm_riscv_trapless_notify_enable(void)
{
	int i;

	for (i = 0; i < ARRAY_SIZE(trapless_irqs); i++)
		enable_percpu_irq(trapless_irqs[i].irq, IRQ_TYPE_NONE);
	/* From here the timer's bit follows the vCPU that is attached */
	csr_clear(CSR_HIE, BIT(IRQ_VS_TIMER));
	this_cpu_write(trapless_cpus.enabled, true);

	/* If this is the first queue nobody was told of what came before */
	if (atomic_inc_return(&trapless_nr_queues) == 1)
		queue_work(trapless_wq, &trapless_scan_work);
}

void kvm_riscv_trapless_notify_disable(void)
{
	int i;

	this_cpu_write(trapless_cpus.enabled, false);
	for (i = 0; i < ARRAY_SIZE(trapless_irqs); i++)
		disable_percpu_irq(trapless_irqs[i].irq);

	kvm_riscv_trapless_check();
	/* Before the queue is closed: another CPU may open one right afterwards */
	atomic_dec(&trapless_nr_queues);
	/* From here notifications go to the queues of other harts */
	kvm_riscv_trapless_notify_close();
}

static void trapless_free_queues(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		free_page(per_cpu(trapless_cpus, cpu).queue);
}

static void trapless_free_irqs(int count)
{
	while (--count >= 0) {
		free_percpu_irq(trapless_irqs[count].irq, &trapless_cpus);
		irq_dispose_mapping(trapless_irqs[count].irq);
	}
}

static int trapless_request_irq(struct irq_domain *domain,
				struct trapless_irq *tirq)
{
	int ret;

	tirq->irq = irq_create_mapping(domain, tirq->hwirq);
	if (!tirq->irq)
		return -ENOMEM;
	if (tirq->chip)
		irq_set_chip(tirq->irq, tirq->chip);
	ret = request_percpu_irq(tirq->irq, tirq->handler, tirq->name,
				 &trapless_cpus);
	if (ret)
		irq_dispose_mapping(tirq->irq);

	return ret;
}

static int trapless_request_irqs(void)
{
	struct irq_domain *domain;
	int i, ret;

	domain = irq_find_matching_fwnode(riscv_get_intc_hwnode(),
					  DOMAIN_BUS_ANY);
	if (!domain) {
		kvm_err("unable to find INTC domain\n");
		return -ENOENT;
	}

	for (i = 0; i < ARRAY_SIZE(trapless_irqs); i++) {
		ret = trapless_request_irq(domain, &trapless_irqs[i]);
		if (ret) {
			kvm_err("unable to request interrupt %u\n",
				trapless_irqs[i].hwirq);
			trapless_free_irqs(i);
			return ret;
		}
	}

	return 0;
}

int kvm_riscv_trapless_notify_init(void)
{
	struct page *page;
	int cpu, ret;

	trapless_wq = alloc_workqueue("kvm-trapless", WQ_UNBOUND, 0);
	if (!trapless_wq)
		return -ENOMEM;

	for_each_possible_cpu(cpu) {
		page = alloc_pages_node(cpu_to_node(cpu),
					GFP_KERNEL | __GFP_ZERO, 0);
		if (!page) {
			ret = -ENOMEM;
			goto free_queues;
		}
		per_cpu(trapless_cpus, cpu).queue =
					(unsigned long)page_address(page);
	}

	ret = trapless_request_irqs();
	if (ret)
		goto free_queues;

	return 0;

free_queues:
	trapless_free_queues();
	destroy_workqueue(trapless_wq);
	return ret;
}

void kvm_riscv_trapless_notify_exit(void)
{
	trapless_free_irqs(ARRAY_SIZE(trapless_irqs));
	destroy_workqueue(trapless_wq);
	trapless_free_queues();
}

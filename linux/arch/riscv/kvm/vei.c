// SPDX-License-Identifier: GPL-2.0-only
/*
 * Virtual events: what a guest posts interrupts a CPU of the host, while the
 * guest goes on.
 *
 * Each event of each VM is an interrupt of the domain that this file provides:
 * its entry in the table of the VM names the CPU, and what that CPU reads from
 * its queue is the number of the interrupt in the domain. The interrupt is
 * acknowledged by clearing the bit "posted" of the entry, before its handler
 * looks at what has been posted: until then the guest interrupts nobody again.
 */

#include <linux/atomic.h>
#include <linux/bitfield.h>
#include <linux/cpu_pm.h>
#include <linux/cpumask.h>
#include <linux/eventfd.h>
#include <linux/idr.h>
#include <linux/interrupt.h>
#include <linux/irq.h>
#include <linux/irqdomain.h>
#include <linux/kvm_host.h>
#include <linux/kvm_vei.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/of_address.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include <linux/timer.h>
#include <linux/workqueue.h>
#include <asm/csr.h>
#include <asm/kvm_uctx.h>
#include <asm/kvm_vei.h>

static bool vei = true;
module_param(vei, bool, 0444);
MODULE_PARM_DESC(vei, "Let doorbells of guests interrupt the host without exits if the harts can");

/* One page of 8-byte entries for each hart */
#define VEI_QUEUE_ORDER		(PAGE_SHIFT - 3)

/* Events handled at a time, before others get a chance on the hart */
#define VEI_BUDGET		32

/*
 * Interrupts that the guest of a VM may cause in each tick; what its events post
 * after that waits for the next. A vCPU posts faster than a CPU handles: without
 * a bound it would keep the CPU that is told in interrupts.
 */
#define VEI_EACH_TICK		(128000 / HZ)

struct vei_cpu {
	unsigned long queue;
	/* Number of the hart in entries */
	unsigned long hartid;
	/* Virtualization is enabled on this CPU */
	bool enabled;
	/* Events and user contexts that name it, and whether it could not hear them */
	atomic_t named;
	bool asleep;
	call_single_data_t wake;
};

struct kvm_vei_event {
	/* Its entry in the table of the VM */
	atomic64_t		*entry;
	struct eventfd_ctx	*eventfd;
	unsigned int		request;
	/* What a CPU reads from its queue, and the interrupt that this is */
	int			id;
	unsigned int		irq;
	/* Its VM has had its interrupts of this tick: disabled until then */
	struct kvm_vei		*kv;
	struct timer_list	timer;
	/* CPU that is told; changes under the lock */
	unsigned int		cpu;
	raw_spinlock_t		lock;
};

DEFINE_STATIC_KEY_FALSE(kvm_riscv_vei_available);

static DEFINE_PER_CPU(struct vei_cpu, vei_cpus);
/* CPUs that run a guest, or are about to: an event would be an exit there */
static struct cpumask vei_busy;

static struct irq_domain *vei_domain;
static struct fwnode_handle *vei_fwnode;
static unsigned int vei_irq;

/* All events by their number, under the mutex */
static DEFINE_IDR(vei_events);
static DEFINE_MUTEX(vei_mutex);

/* Post an event by the physical address of its entry. */
void kvm_riscv_vei_generate(u64 entry)
{
	/* CSR accesses are ordered like device I/O: memory first ... */
	mb();
	csr_write(CSR_HGENVEI, entry);
	/* ... and what follows sees what the access did. */
	mb();
}

/* Wait for posts that are under way on any hart. */
void kvm_riscv_vei_sync(void)
{
	kvm_riscv_vei_generate(0);
}

/* How an entry names a CPU */
u64 kvm_riscv_vei_hart(unsigned int cpu)
{
	return per_cpu(vei_cpus, cpu).hartid;
}

/*
 * @cpu if its queue is open, else another one. Without preemption: a queue that is
 * closed meanwhile is followed by kvm_riscv_uctx_lost().
 */
unsigned int kvm_riscv_vei_open_cpu(u64 cpu)
{
	if (cpu < nr_cpu_ids && READ_ONCE(per_cpu(vei_cpus, cpu).enabled))
		return cpu;
	if (this_cpu_read(vei_cpus.enabled))
		return smp_processor_id();
	for_each_online_cpu(cpu)
		if (READ_ONCE(per_cpu(vei_cpus, cpu).enabled))
			return cpu;

	return smp_processor_id();
}

/*
 * What names a CPU says so before it does, and takes that back after it has named
 * another one.
 */
void kvm_riscv_vei_name(unsigned int cpu)
{
	struct vei_cpu *vc = per_cpu_ptr(&vei_cpus, cpu);

	atomic_inc(&vc->named);
	/* Pairs with that of vei_sleep(): it stays awake, or is woken up */
	smp_mb__after_atomic();
	if (unlikely(READ_ONCE(vc->asleep)))
		/* Busy: it is on its way */
		smp_call_function_single_async(cpu, &vc->wake);
}

void kvm_riscv_vei_unname(unsigned int cpu)
{
	atomic_dec(&per_cpu(vei_cpus, cpu).named);
}

static void vei_nothing(void *unused)
{
}

static void vei_post(struct kvm_vei_event *event)
{
	kvm_riscv_vei_generate(__pa(event->entry));
}

/* Name the CPU that is told from now on. */
static void vei_set_cpu(struct irq_data *d, unsigned int cpu)
{
	struct kvm_vei_event *event = irq_data_get_irq_chip_data(d);
	unsigned long flags;
	s64 old, new;

	raw_spin_lock_irqsave(&event->lock, flags);
	kvm_riscv_vei_name(cpu);
	old = atomic64_read(event->entry);
	do {
		new = (old & ~HAIOV_EVENT_CTL_HART) |
		      FIELD_PREP(HAIOV_EVENT_CTL_HART,
				 per_cpu(vei_cpus, cpu).hartid);
	} while (!atomic64_try_cmpxchg(event->entry, &old, new));
	kvm_riscv_vei_unname(event->cpu);
	event->cpu = cpu;
	irq_data_update_effective_affinity(d, cpumask_of(cpu));
	raw_spin_unlock_irqrestore(&event->lock, flags);
}

/*
 * What was posted may be in a queue that is closed: post it again. If it is in
 * a queue that is read, its handler runs once more than it had to.
 */
static void vei_repost(struct kvm_vei_event *event)
{
	if (atomic64_fetch_andnot(HAIOV_EVENT_CTL_P, event->entry) &
	    HAIOV_EVENT_CTL_P)
		vei_post(event);
}

static void vei_ack(struct irq_data *d)
{
	struct kvm_vei_event *event = irq_data_get_irq_chip_data(d);

	atomic64_andnot(HAIOV_EVENT_CTL_P, event->entry);
	/* The handler looks at what the guest wrote before it posted again */
	smp_mb__after_atomic();
}

static void vei_mask(struct irq_data *d)
{
	struct kvm_vei_event *event = irq_data_get_irq_chip_data(d);

	atomic64_or(HAIOV_EVENT_CTL_M, event->entry);
}

static void vei_unmask(struct irq_data *d)
{
	struct kvm_vei_event *event = irq_data_get_irq_chip_data(d);

	atomic64_andnot(HAIOV_EVENT_CTL_M, event->entry);
	vei_repost(event);
}

/* What came while the interrupt was disabled has been acknowledged. */
static int vei_retrigger(struct irq_data *d)
{
	vei_post(irq_data_get_irq_chip_data(d));

	return 1;
}

static int vei_set_affinity(struct irq_data *d, const struct cpumask *mask,
			    bool force)
{
	struct kvm_vei_event *event = irq_data_get_irq_chip_data(d);
	unsigned int cpu = event->cpu;

	if (!cpumask_test_cpu(cpu, mask) || !cpu_online(cpu))
		cpu = cpumask_any_and(mask, cpu_online_mask);
	if (cpu >= nr_cpu_ids)
		return -EINVAL;

	vei_set_cpu(d, cpu);
	vei_repost(event);

	return IRQ_SET_MASK_OK;
}

static struct irq_chip vei_chip = {
	.name			= "Xvei",
	.irq_ack		= vei_ack,
	.irq_mask		= vei_mask,
	.irq_unmask		= vei_unmask,
	.irq_set_affinity	= vei_set_affinity,
	.irq_retrigger		= vei_retrigger,
	.flags			= IRQCHIP_SKIP_SET_WAKE,
};

static int vei_map(struct irq_domain *domain, unsigned int irq,
		   irq_hw_number_t hwirq)
{
	irq_domain_set_info(domain, irq, hwirq, &vei_chip, NULL,
			    handle_edge_irq, NULL, NULL);
	irq_set_noprobe(irq);
	/* An interrupt that is disabled must not come again to be found so */
	irq_set_status_flags(irq, IRQ_DISABLE_UNLAZY);

	return 0;
}

static const struct irq_domain_ops vei_domain_ops = {
	.map	= vei_map,
};

/*
 * The event has interrupted a guest, though another CPU runs none: that one is
 * told from now on, as far as the interrupt's affinity lets it.
 */
static void vei_move_away(struct kvm_vei_event *event)
{
	struct irq_data *d = irq_get_irq_data(event->irq);
	const struct cpumask *allowed = irq_data_get_affinity_mask(d);
	unsigned int cpu, this_cpu = raw_smp_processor_id();

	if (event->cpu != this_cpu || !cpumask_test_cpu(this_cpu, &vei_busy))
		return;

	for_each_cpu_wrap(cpu, allowed, this_cpu) {
		if (!per_cpu(vei_cpus, cpu).enabled ||
		    cpumask_test_cpu(cpu, &vei_busy))
			continue;
		vei_set_cpu(d, cpu);
		break;
	}
}

/* Counts an interrupt. CPUs that do so at the same time may miscount a few. */
static bool vei_too_many(struct kvm_vei *kv)
{
	unsigned long now = jiffies;

	if (READ_ONCE(kv->tick) != now) {
		WRITE_ONCE(kv->tick, now);
		atomic_set(&kv->told, 0);
	}

	return atomic_inc_return(&kv->told) > VEI_EACH_TICK;
}

static void vei_resume(struct timer_list *timer)
{
	struct kvm_vei_event *event = from_timer(event, timer, timer);

	enable_irq(event->irq);
}

static irqreturn_t vei_interrupt(int irq, void *dev_id)
{
	struct kvm_vei_event *event = dev_id;

	eventfd_signal(event->eventfd);
	vei_move_away(event);
	if (unlikely(vei_too_many(event->kv))) {
		disable_irq_nosync(irq);
		mod_timer(&event->timer, jiffies + 1);
	}

	return IRQ_HANDLED;
}

/* Some events may have been posted without anybody having been told. */
static void vei_scan(struct work_struct *work)
{
	struct kvm_vei_event *event;
	int id;

	mutex_lock(&vei_mutex);
	idr_for_each_entry(&vei_events, event, id)
		vei_repost(event);
	mutex_unlock(&vei_mutex);

	kvm_riscv_uctx_lost();
}

static DECLARE_WORK(vei_scan_work, vei_scan);

/*
 * Take an event from the queue of this CPU; false if there was none. With interrupts
 * disabled.
 */
bool kvm_riscv_vei_take(void)
{
	u64 claim = csr_read(CSR_HVEICLAIM);
	u32 id = FIELD_GET(HAIOV_HVEICLAIM_ID, claim);

	if (claim & HAIOV_HVEICLAIM_OVF)
		schedule_work(&vei_scan_work);
	if (!(claim & HAIOV_HVEICLAIM_V))
		return false;
	if (claim & HAIOV_HVEICLAIM_CTX)
		kvm_riscv_uctx_told(id);
	else
		/* Events that are gone find nobody */
		generic_handle_domain_irq(vei_domain, id);

	return true;
}

static irqreturn_t vei_cpu_interrupt(int irq, void *dev_id)
{
	unsigned int budget = VEI_BUDGET;

	/* The interrupt stays pending until the queue is empty */
	while (budget-- && kvm_riscv_vei_take())
		;

	return IRQ_HANDLED;
}

static void vei_drain_cpu(void *unused)
{
	unsigned int left = BIT(VEI_QUEUE_ORDER);

	while (left-- && kvm_riscv_vei_take())
		;
	kvm_riscv_uctx_flush();
}

/* What was in queues before this is in none after it. */
void kvm_riscv_vei_drain(void)
{
	on_each_cpu(vei_drain_cpu, NULL, 1);
}

/* Whom does the event tell: a user context, or this kernel? */
static void vei_aim(struct kvm_vei_event *event)
{
	struct kvm_uctx_target target = {};
	bool context = kvm_riscv_uctx_available() &&
		       kvm_riscv_uctx_find(event->eventfd, &target);
	u64 kind = context ? FIELD_PREP(HAIOV_EVENT_CTL_KIND, HAIOV_TARGET_CONTEXT) |
			     FIELD_PREP(HAIOV_EVENT_CTL_VECTOR, target.vector) :
			     FIELD_PREP(HAIOV_EVENT_CTL_KIND, HAIOV_TARGET_HART);
	u64 *address = (u64 *)event->entry + 1;
	unsigned long flags;

	raw_spin_lock_irqsave(&event->lock, flags);
	/* Nobody reads the address of a context while this says HART */
	atomic64_andnot(HAIOV_EVENT_CTL_KIND | HAIOV_EVENT_CTL_VECTOR,
			event->entry);
	kvm_riscv_vei_sync();
	WRITE_ONCE(*address, target.address);
	/* The address before the kind */
	smp_mb__before_atomic();
	atomic64_or(kind, event->entry);
	raw_spin_unlock_irqrestore(&event->lock, flags);
	vei_repost(event);
}

/* The user context for an eventfd has changed. */
void kvm_riscv_vei_aim(struct eventfd_ctx *eventfd)
{
	struct kvm_vei_event *event;
	int id;

	mutex_lock(&vei_mutex);
	idr_for_each_entry(&vei_events, event, id)
		if (event->eventfd == eventfd)
			vei_aim(event);
	mutex_unlock(&vei_mutex);
}

static void vei_start(void)
{
	kvm_riscv_uctx_enable();
	csr_write(CSR_HVEITAB, 0);
	csr_write(CSR_HVEIQ, HAIOV_HVEIQ_EN | VEI_QUEUE_ORDER |
			     __pa((void *)this_cpu_read(vei_cpus.queue)));
}

/* Open the queue of this CPU. */
int kvm_riscv_vei_enable(void)
{
	if (!kvm_riscv_vei_available())
		return 0;

	vei_start();
	if (!(csr_read(CSR_HVEIQ) & HAIOV_HVEIQ_EN)) {
		kvm_err("Xvei does not come up on CPU%d\n",
			raw_smp_processor_id());
		return -EIO;
	}
	enable_percpu_irq(vei_irq, IRQ_TYPE_NONE);
	this_cpu_write(vei_cpus.enabled, true);
	/* What named this CPU while its queue was closed */
	schedule_work(&vei_scan_work);

	return 0;
}

void kvm_riscv_vei_disable(void)
{
	if (!kvm_riscv_vei_available())
		return;

	this_cpu_write(vei_cpus.enabled, false);
	kvm_riscv_uctx_disable();
	csr_write(CSR_HVEITAB, 0);
	csr_write(CSR_HVEIQ, 0);
	disable_percpu_irq(vei_irq);
	/* What is left, and what has been posted to nobody since */
	while (kvm_riscv_vei_take())
		;
	schedule_work(&vei_scan_work);
}

/*
 * This CPU may lose its registers, and hears nothing then. Refused if something
 * names it, which is to be heard in time.
 */
static bool vei_sleep(struct vei_cpu *vc)
{
	if (atomic_read(&vc->named))
		return false;
	/* What has named it just now */
	kvm_riscv_vei_sync();
	if (csr_read(CSR_SIP) & BIT(HAIOV_VEI_IRQ))
		return false;

	csr_write(CSR_HVEIQ, 0);
	WRITE_ONCE(vc->asleep, true);
	/* Pairs with that of kvm_riscv_vei_name() */
	smp_mb();

	return !atomic_read(&vc->named);
}

static void vei_awake(struct vei_cpu *vc)
{
	if (!vc->asleep)
		return;

	vei_start();
	WRITE_ONCE(vc->asleep, false);
	/* What was posted to a closed queue is posted again */
	if (atomic_read(&vc->named))
		schedule_work(&vei_scan_work);
}

/* As for Xtrapless */
static int vei_cpu_pm(struct notifier_block *nb, unsigned long action,
		      void *unused)
{
	struct vei_cpu *vc = this_cpu_ptr(&vei_cpus);

	if (!vc->enabled)
		return NOTIFY_OK;

	switch (action) {
	case CPU_PM_ENTER:
		if (vei_sleep(vc))
			break;
		vei_awake(vc);
		return NOTIFY_BAD;
	case CPU_PM_ENTER_FAILED:
	case CPU_PM_EXIT:
		vei_awake(vc);
		break;
	}

	return NOTIFY_OK;
}

static struct notifier_block vei_cpu_pm_nb = {
	.notifier_call = vei_cpu_pm,
};

/* The VM that runs here: its guest posts to its own table only. */
void kvm_riscv_vcpu_vei_load(struct kvm_vcpu *vcpu)
{
	void *table = vcpu->kvm->arch.vei.table;

	if (!kvm_riscv_vei_available())
		return;

	csr_write(CSR_HVEITAB, HAIOV_HVEITAB_V | __pa(table) | KVM_VEI_ORDER);
	cpumask_set_cpu(smp_processor_id(), &vei_busy);
}

void kvm_riscv_vcpu_vei_put(struct kvm_vcpu *vcpu)
{
	if (!kvm_riscv_vei_available())
		return;

	cpumask_clear_cpu(smp_processor_id(), &vei_busy);
}

/* The first CPU that is told: one without a guest, if there is one. */
static unsigned int vei_first_cpu(void)
{
	unsigned int cpu;

	for_each_online_cpu(cpu)
		if (per_cpu(vei_cpus, cpu).enabled &&
		    !cpumask_test_cpu(cpu, &vei_busy))
			return cpu;

	return raw_smp_processor_id();
}

unsigned int kvm_riscv_vei_request(struct kvm_vei_event *event)
{
	return event->request;
}

static int vei_request_irq(struct kvm_vei_event *event)
{
	int ret;

	event->irq = irq_create_mapping(vei_domain, event->id);
	if (!event->irq)
		return -ENOMEM;
	irq_set_chip_data(event->irq, event);
	irqd_set_single_target(irq_get_irq_data(event->irq));

	ret = request_irq(event->irq, vei_interrupt, 0, "kvm-doorbell", event);
	if (ret)
		irq_dispose_mapping(event->irq);

	return ret;
}

/* An event of a VM that signals an eventfd. With slots_lock held. */
struct kvm_vei_event *kvm_riscv_vei_create(struct kvm *kvm,
					   struct eventfd_ctx *eventfd)
{
	struct kvm_vei *kv = &kvm->arch.vei;
	struct kvm_vei_event *event;
	int ret = -ENOSPC;

	event = kzalloc(sizeof(*event), GFP_KERNEL_ACCOUNT);
	if (!event)
		return ERR_PTR(-ENOMEM);
	event->eventfd = eventfd;
	event->kv = kv;
	timer_setup(&event->timer, vei_resume, 0);
	raw_spin_lock_init(&event->lock);

	event->request = find_first_zero_bit(kv->requests, KVM_VEI_EVENTS);
	if (event->request == KVM_VEI_EVENTS)
		goto free_event;
	event->entry = kv->table + event->request * HAIOV_EVENT_SIZE;

	mutex_lock(&vei_mutex);
	/* Not one that may still be in a queue */
	event->id = idr_alloc_cyclic(&vei_events, event, 1, 0, GFP_KERNEL);
	if (event->id < 0) {
		ret = event->id;
		goto unlock;
	}

	cpus_read_lock();
	event->cpu = vei_first_cpu();
	kvm_riscv_vei_name(event->cpu);
	atomic64_set(event->entry, HAIOV_EVENT_CTL_V | HAIOV_EVENT_CTL_M |
		     FIELD_PREP(HAIOV_EVENT_CTL_KIND, HAIOV_TARGET_HART) |
		     FIELD_PREP(HAIOV_EVENT_CTL_HART,
				per_cpu(vei_cpus, event->cpu).hartid) |
		     FIELD_PREP(HAIOV_EVENT_CTL_ID, event->id));
	ret = vei_request_irq(event);
	cpus_read_unlock();
	if (ret)
		goto clear_entry;
	vei_aim(event);
	mutex_unlock(&vei_mutex);
	set_bit(event->request, kv->requests);

	return event;

clear_entry:
	atomic64_set(event->entry, 0);
	kvm_riscv_vei_unname(event->cpu);
	idr_remove(&vei_events, event->id);
unlock:
	mutex_unlock(&vei_mutex);
free_event:
	kfree(event);
	return ERR_PTR(ret);
}

/* No doorbell of the guest posts the event any more. With slots_lock held. */
void kvm_riscv_vei_free(struct kvm *kvm, struct kvm_vei_event *event)
{
	mutex_lock(&vei_mutex);
	/* While it is found, its user context cannot go without its being told */
	atomic64_andnot(HAIOV_EVENT_CTL_V, event->entry);
	kvm_riscv_vei_sync();
	idr_remove(&vei_events, event->id);
	mutex_unlock(&vei_mutex);

	timer_shutdown_sync(&event->timer);
	free_irq(event->irq, event);
	irq_dispose_mapping(event->irq);
	/* What was posted, and had no handler since. Nobody can tell whether it was */
	eventfd_signal(event->eventfd);
	atomic64_set(event->entry, 0);
	kvm_riscv_vei_unname(event->cpu);
	clear_bit(event->request, kvm->arch.vei.requests);
	kfree(event);
}

int kvm_riscv_vei_init_vm(struct kvm *kvm)
{
	struct kvm_vei *kv = &kvm->arch.vei;

	INIT_LIST_HEAD(&kv->pages);
	if (!kvm_riscv_vei_available())
		return 0;

	BUILD_BUG_ON(KVM_VEI_EVENTS * HAIOV_EVENT_SIZE > PAGE_SIZE);
	kv->table = (void *)get_zeroed_page(GFP_KERNEL_ACCOUNT);

	return kv->table ? 0 : -ENOMEM;
}

/* No vCPU runs, and the buses with all ioeventfds are gone. */
void kvm_riscv_vei_destroy_vm(struct kvm *kvm)
{
	if (!kvm_riscv_vei_available())
		return;

	kvm_riscv_vei_sync();
	kvm_riscv_vei_free_pages(kvm);
	free_page((unsigned long)kvm->arch.vei.table);
}

/* Do all harts that the device tree describes have the extension? */
static bool __init vei_probe(void)
{
	struct device_node *node;
	bool found = vei;
	u64 hartid;
	int cpu;

	for_each_possible_cpu(cpu) {
		node = of_get_cpu_node(cpu, NULL);
		found &= node &&
			 of_property_match_string(node, "riscv,isa-extensions",
						  "xvei") >= 0 &&
			 !of_property_read_reg(node, 0, &hartid, NULL);
		of_node_put(node);
		if (!found)
			return false;
		per_cpu(vei_cpus, cpu).hartid = hartid;
	}

	return found;
}

static void vei_free_queues(void)
{
	int cpu;

	for_each_possible_cpu(cpu)
		free_page(per_cpu(vei_cpus, cpu).queue);
}

static int __init vei_init_irq(void)
{
	struct irq_domain *intc;
	int ret;

	intc = irq_find_matching_fwnode(riscv_get_intc_hwnode(),
					DOMAIN_BUS_ANY);
	if (!intc)
		return -ENOENT;
	vei_irq = irq_create_mapping(intc, HAIOV_VEI_IRQ);
	if (!vei_irq)
		return -ENOMEM;

	ret = request_percpu_irq(vei_irq, vei_cpu_interrupt, "kvm-event",
				 &vei_cpus);
	if (ret)
		irq_dispose_mapping(vei_irq);

	return ret;
}

static void vei_free_irq(void)
{
	free_percpu_irq(vei_irq, &vei_cpus);
	irq_dispose_mapping(vei_irq);
}

int __init kvm_riscv_vei_init(void)
{
	int cpu, ret = -ENOMEM;

	if (!vei_probe())
		return -ENODEV;

	for_each_possible_cpu(cpu) {
		per_cpu(vei_cpus, cpu).queue = get_zeroed_page(GFP_KERNEL);
		if (!per_cpu(vei_cpus, cpu).queue)
			goto free_queues;
		INIT_CSD(per_cpu_ptr(&vei_cpus.wake, cpu), vei_nothing, NULL);
	}

	vei_fwnode = irq_domain_alloc_named_fwnode("kvm-events");
	if (!vei_fwnode)
		goto free_queues;
	vei_domain = irq_domain_create_tree(vei_fwnode, &vei_domain_ops, NULL);
	if (!vei_domain)
		goto free_fwnode;

	ret = vei_init_irq();
	if (ret) {
		kvm_err("unable to request interrupt %d\n", HAIOV_VEI_IRQ);
		goto free_domain;
	}

	ret = kvm_register_device_ops(&kvm_riscv_vei_device_ops,
				      KVM_DEV_TYPE_RISCV_VEI);
	if (ret)
		goto free_irq;

	cpu_pm_register_notifier(&vei_cpu_pm_nb);
	static_branch_enable(&kvm_riscv_vei_available);

	return 0;

free_irq:
	vei_free_irq();
free_domain:
	irq_domain_remove(vei_domain);
free_fwnode:
	irq_domain_free_fwnode(vei_fwnode);
free_queues:
	vei_free_queues();
	return ret;
}

/* Called when virtualization has been disabled on all CPUs. */
void kvm_riscv_vei_exit(void)
{
	if (!kvm_riscv_vei_available())
		return;

	cpu_pm_unregister_notifier(&vei_cpu_pm_nb);
	cancel_work_sync(&vei_scan_work);
	kvm_unregister_device_ops(KVM_DEV_TYPE_RISCV_VEI);
	vei_free_irq();
	irq_domain_remove(vei_domain);
	irq_domain_free_fwnode(vei_fwnode);
	vei_free_queues();
}

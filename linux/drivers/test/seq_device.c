// SPDX-License-Identifier: GPL-2.0-only
/*
 * Device interrupts: those of the test device of a VMM.
 *
 * Device tree: compatible "trapless,test-device", one register window,
 * `interrupts` with N = 1..32 sources, and `trapless,kinds` with a cell for
 * each: 0 EDGE, 1 LEVEL (lowered by ACK), 2 RESAMPLE (lowered by completion).
 *
 * Registers, 32 bits each:
 *	0x00 ID       ro  0x54535154
 *	0x04 SOURCES  ro  N
 *	0x08 PAGE_LO  rw  guest physical address of the shared page
 *	0x0c PAGE_HI  rw
 *	0x10 COUNT    rw  interrupts per source; lowered while the device runs:
 *			  each source sends at most one more
 *	0x14 INTERVAL rw  microseconds between two rounds over the sources
 *	0x18 BURST    rw  1..8: how far `sent` of a LEVEL or RESAMPLE source
 *			  may be ahead of `handled`
 *	0x1c CONTROL  rw  1 starts, 0 stops (nothing is raised afterwards);
 *			  reads 1 until all were sent
 *	0x20 ACK      wo  i: line of LEVEL source i goes low if nothing is owed
 *	0x24 ERRORS   ro  errors the device saw
 *	0x28 MASK     rw  sources that send, one bit each; all after reset
 *
 * Shared page: 64 bytes per source: u64 `sent`, written by the device before
 * it raises the interrupt, and u64 `handled`, written here.  An EDGE source
 * sends the next when `handled` is `sent`.
 *
 * So an interrupt with nothing owed is a duplicate, one that is owed and does
 * not come within the time-out is lost, and one on another CPU than the source
 * was routed to when it was sent is misdelivered.
 */

#include <linux/delay.h>
#include <linux/gfp.h>
#include <linux/interrupt.h>
#include <linux/io.h>
#include <linux/irq.h>
#include <linux/kthread.h>
#include <linux/module.h>
#include <linux/of.h>
#include <linux/platform_device.h>
#include <linux/slab.h>

#include "seq.h"

#define DEVICE_ID		0x54535154
#define REG_ID			0x00
#define REG_SOURCES		0x04
#define REG_PAGE_LO		0x08
#define REG_PAGE_HI		0x0c
#define REG_COUNT		0x10
#define REG_INTERVAL		0x14
#define REG_BURST		0x18
#define REG_CONTROL		0x1c
#define REG_ACK			0x20
#define REG_ERRORS		0x24
#define REG_MASK		0x28

#define MAX_SOURCES		32

/* Edges in a row that may run on a CPU the source has left; see right_cpu(). */
#define MAX_DEFERRED		8

enum seq_kind { KIND_EDGE, KIND_LEVEL, KIND_RESAMPLE, KINDS };

static const char * const kind_names[KINDS] = { "edge", "level", "resample" };

struct shared_source {
	u64 sent;
	u64 handled;
	u64 reserved[6];
};

/**
 * struct seq_source - one source of the test device
 * @lock:	protects what follows
 * @number:	its index in the device
 * @irq:	Linux interrupt number
 * @kind:	how it is raised and lowered
 * @handled:	interrupts that came
 * @cpu:	CPU it is routed to
 * @old_cpu:	CPU it was routed to before
 * @fence:	interrupts up to this number may come on @old_cpu
 * @last_cpu:	CPU of the last interrupt
 * @deferred_run: edges in a row on @last_cpu instead of @cpu
 * @deferred:	all of these
 * @moved:	changes of @cpu
 * @by_message:	an APLIC sends it as a message
 * @stray_may_come: since @cpu changed none has
 * @strays:	interrupts that the controller repeated after a change of @cpu
 * @lost:	given up
 * @per_cpu:	interrupts per CPU
 * @watch:	looks for stagnation
 */
struct seq_source {
	raw_spinlock_t lock;
	unsigned int number;
	int irq;
	enum seq_kind kind;
	u64 handled;
	unsigned int cpu;
	unsigned int old_cpu;
	u64 fence;
	unsigned int last_cpu;
	unsigned int deferred_run;
	u64 deferred;
	u64 moved;
	bool by_message;
	bool stray_may_come;
	u64 strays;
	bool lost;
	u64 *per_cpu;
	struct seq_watch watch;
};

static struct platform_device *device;
static void __iomem *regs;
static struct shared_source *shared;
static struct seq_source *sources;
static unsigned int nr_sources;
static struct task_struct *mover;
static struct seq_watch device_watch;
static u64 expected;
static bool running;

static u64 sent_by_device(struct seq_source *s)
{
	/* Before anything the device wrote earlier for this interrupt. */
	return smp_load_acquire(&shared[s->number].sent);
}

static bool right_cpu(struct seq_source *s, u64 number, unsigned int cpu)
{
	if (cpu == s->cpu) {
		s->deferred_run = 0;
		return true;
	}
	if (cpu == s->old_cpu && number <= s->fence)
		return true;
	/*
	 * An edge that comes to the new CPU while the old one is still in the
	 * flow handler is left to the old one by the kernel.
	 */
	if (s->kind == KIND_EDGE && cpu == s->last_cpu) {
		s->deferred++;
		return ++s->deferred_run <= MAX_DEFERRED;
	}
	return false;
}

/*
 * Whether an interrupt with nothing owed is the APLIC's: when the old CPU
 * completes, Linux lets it look at the level again, and the level may be that
 * of an interrupt which the new CPU has already taken.  It is sent twice then,
 * once for each change of the CPU at most.
 */
static bool is_stray(struct seq_source *s, u64 sent)
{
	if (s->kind != KIND_LEVEL || sent != s->handled || !s->stray_may_come)
		return false;
	s->stray_may_come = false;
	s->strays++;
	return true;
}

static irqreturn_t seq_device_irq(int irq, void *data)
{
	struct seq_source *s = data;
	unsigned int cpu = smp_processor_id();
	u64 sent;

	raw_spin_lock(&s->lock);
	sent = sent_by_device(s);
	if (is_stray(s, sent))
		goto unlock;
	if (sent <= s->handled || (s->kind == KIND_EDGE && sent != s->handled + 1)) {
		seq_error(SEQ_DUPLICATE, "%s source %u, %llu sent, %llu handled before",
			  kind_names[s->kind], s->number, sent, s->handled);
		/* An edge that skips one lets the device go on all the same. */
		if (sent <= s->handled)
			goto unlock;
		s->handled = sent - 1;
	}
	WRITE_ONCE(s->handled, s->handled + 1);
	if (s->handled == seq_devices)
		seq_part_ended();
	if (!right_cpu(s, s->handled, cpu))
		seq_error(SEQ_MISDELIVERED,
			  "%s source %u, number %llu, on CPU %u, routed to %u, before %u",
			  kind_names[s->kind], s->number, s->handled, cpu,
			  s->cpu, s->old_cpu);
	s->last_cpu = cpu;
	s->per_cpu[cpu]++;
	/* From here on the device may raise the next one. */
	smp_store_release(&shared[s->number].handled, s->handled);
unlock:
	if (s->kind == KIND_LEVEL)
		writel(s->number, regs + REG_ACK);
	raw_spin_unlock(&s->lock);
	/* The next one may come to another CPU meanwhile. */
	if (seq_linger_us)
		udelay(seq_linger_us);
	return IRQ_HANDLED;
}

/* Routes a source to the next CPU, if all from before the last move have come. */
static void move(struct seq_source *s)
{
	unsigned int cpu;
	bool settled;
	int ret;

	raw_spin_lock_irq(&s->lock);
	settled = s->handled >= s->fence;
	cpu = cpumask_next(s->cpu, &seq_cpus);
	if (cpu >= nr_cpu_ids)
		cpu = cpumask_first(&seq_cpus);
	if (settled && cpu != s->cpu) {
		s->old_cpu = s->cpu;
		s->cpu = cpu;
		s->fence = U64_MAX;
		s->stray_may_come = s->by_message;
	}
	raw_spin_unlock_irq(&s->lock);
	if (!settled || s->fence != U64_MAX)
		return;

	ret = irq_set_affinity(s->irq, cpumask_of(cpu));
	raw_spin_lock_irq(&s->lock);
	/* Whatever was sent by now may have been taken by the old CPU. */
	s->fence = sent_by_device(s);
	/* An IMSIC refuses while its vector of the last move is still in use: another time. */
	if (ret == -EBUSY)
		s->cpu = s->old_cpu;
	else
		s->moved++;
	raw_spin_unlock_irq(&s->lock);
	if (ret && ret != -EBUSY)
		seq_error(SEQ_FAILED, "source %u cannot be routed to CPU %u: error %d",
			  s->number, cpu, ret);
}

static int mover_function(void *unused)
{
	unsigned int i;

	while (!seq_should_stop()) {
		msleep_interruptible(seq_affinity_ms);
		for (i = 0; i < nr_sources && !seq_should_stop(); i++)
			move(&sources[i]);
	}
	while (!kthread_should_stop())
		schedule_timeout_interruptible(HZ / 10);
	return 0;
}

static int seq_device_init_source(unsigned int i, u32 kind)
{
	struct seq_source *s = &sources[i];
	struct device *dev = &device->dev;
	const struct irq_chip *chip;
	int ret;

	raw_spin_lock_init(&s->lock);
	s->number = i;
	s->kind = kind;
	s->irq = platform_get_irq(device, i);
	if (s->irq < 0)
		return s->irq;
	s->per_cpu = devm_kcalloc(dev, nr_cpu_ids, sizeof(*s->per_cpu),
				  GFP_KERNEL);
	if (!s->per_cpu)
		return -ENOMEM;
	chip = irq_get_chip(s->irq);
	s->by_message = chip && strstarts(chip->name, "APLIC-MSI");
	s->cpu = cpumask_first(&seq_cpus);
	s->old_cpu = s->cpu;
	s->last_cpu = s->cpu;
	ret = devm_request_irq(dev, s->irq, seq_device_irq,
			       IRQF_NOBALANCING | IRQF_NO_THREAD,
			       "trapless-seq", s);
	if (ret)
		return ret;
	return irq_set_affinity(s->irq, cpumask_of(s->cpu));
}

static int __init seq_device_probe(struct platform_device *pdev)
{
	struct device *dev = &pdev->dev;
	u32 kinds[MAX_SOURCES];
	unsigned int i;
	int ret;

	if (device)
		return -EBUSY;
	regs = devm_platform_ioremap_resource(pdev, 0);
	if (IS_ERR(regs))
		return PTR_ERR(regs);
	nr_sources = readl(regs + REG_SOURCES);
	if (readl(regs + REG_ID) != DEVICE_ID || nr_sources < 1 ||
	    nr_sources > MAX_SOURCES)
		return dev_err_probe(dev, -ENXIO, "not a test device\n");
	ret = device_property_read_u32_array(dev, "trapless,kinds", kinds,
					     nr_sources);
	if (ret)
		return dev_err_probe(dev, ret, "no property trapless,kinds\n");

	shared = (void *)devm_get_free_pages(dev, GFP_KERNEL | __GFP_ZERO, 0);
	sources = devm_kcalloc(dev, nr_sources, sizeof(*sources), GFP_KERNEL);
	if (!shared || !sources)
		return -ENOMEM;
	device = pdev;
	/* A device left running by an earlier test would write to its page. */
	writel(0, regs + REG_CONTROL);
	for (i = 0; i < nr_sources; i++) {
		ret = kinds[i] < KINDS ? seq_device_init_source(i, kinds[i]) :
					 -EINVAL;
		if (ret)
			return dev_err_probe(dev, ret, "source %u\n", i);
	}
	return 0;
}

static const struct of_device_id seq_device_match[] = {
	{ .compatible = "trapless,test-device" },
	{}
};

static struct platform_driver seq_device_driver = {
	.driver = {
		.name			= "trapless-seq",
		.of_match_table		= seq_device_match,
		.suppress_bind_attrs	= true,
	},
};

/* A machine without the device is tested without it. */
int __init seq_device_init(void)
{
	int ret;

	if (!seq_devices)
		return 0;
	ret = platform_driver_probe(&seq_device_driver, seq_device_probe);
	if (ret && device) {
		device = NULL;
		return ret;
	}
	if (ret)
		pr_info("trapless_seq: no test device\n");
	return 0;
}

void seq_device_exit(void)
{
	if (device)
		platform_driver_unregister(&seq_device_driver);
	device = NULL;
}

/* Sources of the kind asked for, the first ones of them. */
static u32 mask(void)
{
	unsigned int i;
	u32 bits = 0;

	for (i = 0; i < nr_sources && hweight32(bits) < seq_sources; i++)
		if (seq_kind < 0 || sources[i].kind == seq_kind)
			bits |= BIT(i);
	return bits;
}

int seq_device_start(void)
{
	phys_addr_t page = device ? virt_to_phys(shared) : 0;

	if (!device)
		return 0;
	if (seq_affinity_ms && cpumask_weight(&seq_cpus) > 1) {
		mover = kthread_run(mover_function, NULL, "trapless_move");
		if (IS_ERR(mover))
			return PTR_ERR(mover);
	}
	writel(lower_32_bits(page), regs + REG_PAGE_LO);
	writel(upper_32_bits(page), regs + REG_PAGE_HI);
	writel(min_t(unsigned long, seq_devices, U32_MAX), regs + REG_COUNT);
	writel(seq_device_us, regs + REG_INTERVAL);
	writel(seq_burst, regs + REG_BURST);
	writel(mask(), regs + REG_MASK);
	expected = seq_devices * hweight32(mask());
	seq_add_parts(hweight32(mask()));
	writel(1, regs + REG_CONTROL);
	running = true;
	return 0;
}

static bool source_busy(struct seq_source *s)
{
	u64 handled = READ_ONCE(s->handled);
	bool owed = sent_by_device(s) > handled;

	if (s->lost)
		return false;
	if (!seq_watch(&s->watch, handled, owed))
		return owed;
	seq_error(SEQ_LOST, "%s source %u, number %llu, routed to CPU %u",
		  kind_names[s->kind], s->number, handled + 1, s->cpu);
	s->lost = true;
	return false;
}

bool seq_device_busy(void)
{
	static u64 last;
	u64 total = seq_device_total();
	unsigned int i;
	bool busy;

	if (!running)
		return false;
	if (READ_ONCE(seq_stopping))
		writel(1, regs + REG_COUNT);
	/*
	 * First, because a device that has ended sends nothing after that.  To
	 * ask it is an exit of the guest: not while its interrupts come.
	 */
	busy = (total != last && total != expected) || readl(regs + REG_CONTROL);
	last = total;
	for (i = 0; i < nr_sources; i++)
		busy |= source_busy(&sources[i]);
	if (!seq_watch(&device_watch, seq_device_total(), busy))
		return busy;
	/* It does not send what comes after a lost one, and did no wrong then. */
	for (i = 0; i < nr_sources; i++)
		if (sources[i].lost)
			return false;
	seq_error(SEQ_FAILED, "the test device does not send any more");
	return false;
}

void seq_device_stop(void)
{
	u32 device_errors;

	if (mover)
		kthread_stop(mover);
	mover = NULL;
	if (!running)
		return;
	running = false;
	writel(0, regs + REG_CONTROL);
	device_errors = readl(regs + REG_ERRORS);
	if (device_errors)
		seq_error(SEQ_FAILED, "the test device saw %u errors",
			  device_errors);
}

void seq_device_show(struct seq_file *m)
{
	unsigned int i, cpu;

	for (i = 0; device && i < nr_sources; i++) {
		struct seq_source *s = &sources[i];

		seq_printf(m, "device source=%u kind=%s sent=%llu handled=%llu moved=%llu deferred=%llu strays=%llu cpus=",
			   i, kind_names[s->kind], sent_by_device(s),
			   READ_ONCE(s->handled), READ_ONCE(s->moved),
			   READ_ONCE(s->deferred), READ_ONCE(s->strays));
		for_each_cpu(cpu, &seq_cpus)
			seq_printf(m, "%s%llu",
				   cpu == cpumask_first(&seq_cpus) ? "" : ",",
				   READ_ONCE(s->per_cpu[cpu]));
		seq_putc(m, '\n');
	}
}

u64 seq_device_total(void)
{
	unsigned int i;
	u64 sum = 0;

	for (i = 0; device && i < nr_sources; i++)
		sum += READ_ONCE(sources[i].handled);
	return sum;
}

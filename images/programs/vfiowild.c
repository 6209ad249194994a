// SPDX-License-Identifier: GPL-2.0-only
/*
 * vfiowild DEVICE
 *
 * A hostile user of a PCI device, a controller of NVM Express that vfio-pci has
 * (DEVICE: 0000:00:01.0). Has it write to addresses that are not its user's, and
 * interrupt with addresses and words that nobody gave it: the table of MSI-X is
 * in a BAR that VFIO lets its user map. Then has it hold its wire, which it unmasks
 * again and again. Prints what had an effect as KEY=VALUE.
 */

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>
#include <linux/iommufd.h>
#include <linux/vfio.h>

/* Registers of the controller, in words */
#define NVME_CC			(0x14 / 4)
#define NVME_CSTS		(0x1c / 4)
#define NVME_AQA		(0x24 / 4)
#define NVME_ASQ		(0x28 / 4)
#define NVME_ACQ		(0x30 / 4)
#define NVME_SQ0_TAIL		(0x1000 / 4)
#define NVME_CQ0_HEAD		(0x1004 / 4)
#define NVME_CC_ENABLE		0x460001	/* entries of 64 and 16 bytes */
#define NVME_READY		1
#define NVME_IDENTIFY		6

#define ENTRIES			16
#define PAGE			4096
/* What the device may reach: submissions, completions, data */
#define IOVA			0x100000ULL
#define PAGES			3
#define VECTORS			2
/* Words that are tried for messages: all identities of an interrupt file, and more */
#define WORDS			4096
/* How often the wire is unmasked while the device holds it */
#define UNMASKS			1000

static volatile uint32_t *registers, *table;
static uint8_t *memory;
static int events[VECTORS];
static int device;
static unsigned int tail, head, phase;

static _Noreturn void fatal(const char *what)
{
	fprintf(stderr, "vfiowild: %s: %s\n", what, strerror(errno));
	exit(1);
}

static void open_device(const char *name)
{
	char path[300] = "";
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/sys/bus/pci/devices/%s/vfio-dev", name);
	dir = opendir(path);
	while (dir && (entry = readdir(dir)))
		if (!strncmp(entry->d_name, "vfio", 4))
			snprintf(path, sizeof(path), "/dev/vfio/devices/%s", entry->d_name);
	device = open(path, O_RDWR);
	if (device < 0)
		fatal(path);
}

static void map_memory(void)
{
	struct iommu_ioas_alloc alloc = { .size = sizeof(alloc) };
	struct vfio_device_bind_iommufd bind = { .argsz = sizeof(bind) };
	struct vfio_device_attach_iommufd_pt attach = { .argsz = sizeof(attach) };
	struct iommu_ioas_map map = {
		.size = sizeof(map),
		.flags = IOMMU_IOAS_MAP_FIXED_IOVA | IOMMU_IOAS_MAP_READABLE |
			 IOMMU_IOAS_MAP_WRITEABLE,
		.iova = IOVA,
		.length = PAGES * PAGE,
	};
	int iommu = open("/dev/iommu", O_RDWR);

	if (iommu < 0)
		fatal("/dev/iommu");
	bind.iommufd = iommu;
	if (ioctl(device, VFIO_DEVICE_BIND_IOMMUFD, &bind) ||
	    ioctl(iommu, IOMMU_IOAS_ALLOC, &alloc))
		fatal("iommufd");
	attach.pt_id = alloc.out_ioas_id;
	memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (memory == MAP_FAILED)
		fatal("memory");
	map.ioas_id = alloc.out_ioas_id;
	map.user_va = (uintptr_t)memory;
	if (ioctl(device, VFIO_DEVICE_ATTACH_IOMMUFD_PT, &attach) ||
	    ioctl(iommu, IOMMU_IOAS_MAP, &map))
		fatal("map");
}

static volatile uint32_t *map_bar(unsigned int index)
{
	struct vfio_region_info info = { .argsz = sizeof(info), .index = index };
	void *bar;

	if (ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &info))
		fatal("region");
	bar = mmap(NULL, info.size, PROT_READ | PROT_WRITE, MAP_SHARED, device, info.offset);
	if (bar == MAP_FAILED)
		fatal("BAR");
	return bar;
}

/* Has VFIO write events[] of @count interrupts of a kind; 0: no more */
static int set_interrupts(unsigned int kind, unsigned int count)
{
	char buffer[sizeof(struct vfio_irq_set) + sizeof(events)];
	struct vfio_irq_set *set = (void *)buffer;

	memset(set, 0, sizeof(*set));
	set->argsz = sizeof(*set) + count * sizeof(*events);
	set->flags = VFIO_IRQ_SET_ACTION_TRIGGER |
		     (count ? VFIO_IRQ_SET_DATA_EVENTFD : VFIO_IRQ_SET_DATA_NONE);
	set->index = kind;
	set->count = count;
	memcpy(set->data, events, count * sizeof(*events));
	return ioctl(device, VFIO_DEVICE_SET_IRQS, set);
}

static void enable_messages(void)
{
	int i;

	for (i = 0; i < VECTORS; i++)
		events[i] = eventfd(0, EFD_NONBLOCK);
	if (set_interrupts(VFIO_PCI_MSIX_IRQ_INDEX, VECTORS))
		fatal("MSI-X");
}

static unsigned int taken(int vector)
{
	uint64_t count;

	return read(events[vector], &count, sizeof(count)) == sizeof(count) ? count : 0;
}

static unsigned int came(int vector)
{
	/* Interrupts are threaded, or on another hart: they take a while. */
	usleep(50);
	return taken(vector);
}

/* Waits for one that must come */
static unsigned int expected(int vector)
{
	unsigned int tries, count = 0;

	for (tries = 0; !count && tries < 1000; tries++)
		count = came(vector);
	return count;
}

/* Forgets those of what was done before */
static void drain(void)
{
	int vector;

	usleep(1000);
	for (vector = 0; vector < VECTORS; vector++)
		taken(vector);
}

static void set_bus_master(void)
{
	struct vfio_region_info info = {
		.argsz = sizeof(info),
		.index = VFIO_PCI_CONFIG_REGION_INDEX,
	};
	uint16_t command;

	if (ioctl(device, VFIO_DEVICE_GET_REGION_INFO, &info) ||
	    pread(device, &command, 2, info.offset + 4) != 2)
		fatal("configuration");
	command |= 6;
	if (pwrite(device, &command, 2, info.offset + 4) != 2)
		fatal("configuration");
}

/* Starts the controller with its queues at @queues; returns whether it is ready */
static int start(uint64_t queues)
{
	int tries;

	registers[NVME_CC] = 0;
	for (tries = 0; registers[NVME_CSTS] & NVME_READY; tries++)
		if (tries > 1000)
			fatal("controller");
	memset(memory, 0, PAGES * PAGE);
	tail = head = 0;
	phase = 1;
	registers[NVME_AQA] = (ENTRIES - 1) << 16 | (ENTRIES - 1);
	registers[NVME_ASQ] = queues;
	registers[NVME_ASQ + 1] = queues >> 32;
	registers[NVME_ACQ] = queues + PAGE;
	registers[NVME_ACQ + 1] = (queues + PAGE) >> 32;
	registers[NVME_CC] = NVME_CC_ENABLE;
	for (tries = 0; tries < 1000; tries++)
		if (registers[NVME_CSTS] & NVME_READY)
			return 1;
	return 0;
}

/* Has the controller write a page to @address */
static void submit(uint64_t address)
{
	volatile uint32_t *entry = (void *)(memory + tail * 64);

	memset((void *)entry, 0, 64);
	entry[0] = NVME_IDENTIFY;
	entry[6] = address;
	entry[7] = address >> 32;
	entry[10] = 1;
	tail = (tail + 1) % ENTRIES;
	__sync_synchronize();
	registers[NVME_SQ0_TAIL] = tail;
}

/* The same; returns its status, or -1 for none */
static int identify(uint64_t address)
{
	volatile uint32_t *done = (void *)(memory + PAGE + head * 16);
	int tries;

	submit(address);
	for (tries = 0; (done[3] >> 16 & 1) != phase; tries++)
		if (tries > 1000)
			return -1;
	head = (head + 1) % ENTRIES;
	if (!head)
		phase = !phase;
	registers[NVME_CQ0_HEAD] = head;
	return done[3] >> 17;
}

static uint64_t physical_address(const void *page)
{
	int fd = open("/proc/self/pagemap", O_RDONLY);
	uint64_t entry;

	if (pread(fd, &entry, 8, (uintptr_t)page / PAGE * 8) != 8 || !(entry << 9))
		fatal("pagemap");
	close(fd);
	return (entry & ((1ULL << 55) - 1)) * PAGE;
}

/* Addresses that are not the user's: memory of others, devices, nothing */
static void write_to_others(void)
{
	uint8_t *own = mmap(NULL, PAGE, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	uint64_t addresses[] = {
		0, 0x1000, 0x2000000, 0x3010000, 0x3020000, 0xc000000, 0x10000000, 0x28000000,
		0x28001000, 0x30000000, 0x40000000, 0x80000000, 0x80200000, 0x80400000,
		IOVA - PAGE, IOVA + PAGES * PAGE, 1ULL << 38, 1ULL << 41, 1ULL << 50, 1ULL << 56,
		-1ULL << 12, 0,
	};
	unsigned int i, refused = 0, number = sizeof(addresses) / sizeof(*addresses);
	int changed = 0;

	memset(own, 0x5a, PAGE);
	addresses[number - 1] = physical_address(own);
	for (i = 0; i < number; i++)
		refused += identify(addresses[i]) > 0;
	for (i = 0; i < PAGE; i++)
		changed |= own[i] != 0x5a;
	printf("writes=%u\nwrites_refused=%u\nwritten=%d\n", number, refused, changed);
}

/* Every word for a message of vector 0, to each address that a vector has */
static void send_words(void)
{
	uint32_t own[3] = { table[0], table[1], table[2] };
	unsigned int i, vector, effects[VECTORS] = { 0 };

	drain();
	for (vector = 0; vector < VECTORS; vector++) {
		table[0] = table[4 * vector];
		table[1] = table[4 * vector + 1];
		for (i = 0; i < WORDS; i++) {
			/* The last has a bit that no number of an interrupt has */
			table[2] = i < WORDS - 1 ? i : 0x80000000 | own[2];
			if (identify(IOVA + 2 * PAGE))
				fatal("identify");
			effects[0] += came(0);
			effects[1] += taken(1);
		}
	}
	for (i = 0; i < 3; i++)
		table[i] = own[i];
	printf("words=%u\nwords_vector0=%u\nwords_vector1=%u\n", VECTORS * WORDS,
	       effects[0], effects[1]);
}

/* Every kind of address for a message of vector 0 */
static void send_to_others(void)
{
	uint64_t address = (uint64_t)table[1] << 32 | table[0];
	uint64_t addresses[] = {
		0, 0x1000, 0x2000000, 0x2004000, 0x2f00000, 0x3010048, 0x3020010, 0xc000000,
		0xc000004, 0xd000000, 0x10000000, 0x24000000, 0x28000000, 0x28001000, 0x28002000,
		0x28003000, 0x28004000, 0x30000000, 0x80000000, 0x80200000, address + 8,
		address ^ 0x1000, address ^ 0x10000, address | 1ULL << 56, IOVA - 4,
	};
	unsigned int i, vector, effects = 0, number = sizeof(addresses) / sizeof(*addresses);

	drain();
	for (i = 0; i < number; i++) {
		table[0] = addresses[i];
		table[1] = addresses[i] >> 32;
		identify(IOVA + 2 * PAGE);
		for (vector = 0; vector < VECTORS; vector++)
			effects += came(vector);
	}
	table[0] = address;
	table[1] = address >> 32;
	printf("addresses=%u\naddresses_came=%u\n", number, effects);
}

/* A completion that is never taken: the device holds its wire */
static void storm(void)
{
	struct vfio_irq_set unmask = {
		.argsz = sizeof(unmask),
		.flags = VFIO_IRQ_SET_ACTION_UNMASK | VFIO_IRQ_SET_DATA_NONE,
		.index = VFIO_PCI_INTX_IRQ_INDEX,
		.count = 1,
	};
	unsigned int i, effects;

	if (set_interrupts(VFIO_PCI_MSIX_IRQ_INDEX, 0) ||
	    set_interrupts(VFIO_PCI_INTX_IRQ_INDEX, 1) || !start(IOVA))
		fatal("INTx");
	drain();
	submit(IOVA + 2 * PAGE);
	effects = came(0);
	for (i = 0; i < UNMASKS; i++) {
		if (ioctl(device, VFIO_DEVICE_SET_IRQS, &unmask))
			fatal("unmask");
		effects += came(0);
	}
	printf("unmasks=%u\nunmasks_came=%u\n", UNMASKS, effects);
}

int main(int argc, char **argv)
{
	int status;

	if (argc != 2) {
		fprintf(stderr, "usage: vfiowild DEVICE\n");
		return 2;
	}
	open_device(argv[1]);
	map_memory();
	registers = map_bar(VFIO_PCI_BAR0_REGION_INDEX);
	table = map_bar(VFIO_PCI_BAR4_REGION_INDEX);
	set_bus_master();
	enable_messages();
	if (!start(IOVA))
		fatal("the controller does not start");
	status = identify(IOVA + 2 * PAGE);
	printf("plain_status=%d\nplain_came=%u\n", status, expected(0));
	write_to_others();
	send_words();
	send_to_others();
	status = identify(IOVA + 2 * PAGE);
	printf("afterwards_status=%d\nafterwards_came=%u\n", status, expected(0));
	/* Its queues at an address that is not the user's: it must stop, and no more */
	start(IOVA + PAGES * PAGE);
	registers[NVME_SQ0_TAIL] = 1;
	printf("wild_queues_status=%#x\n", registers[NVME_CSTS]);
	if (ioctl(device, VFIO_DEVICE_RESET) || !start(IOVA))
		fatal("reset");
	printf("reset_status=%d\n", identify(IOVA + 2 * PAGE));
	storm();
	return 0;
}

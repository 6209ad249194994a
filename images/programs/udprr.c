// SPDX-License-Identifier: GPL-2.0-only
/*
 * udprr serve PORT
 * udprr ADDRESS PORT SIZE REQUESTS [PAUSE]
 *
 * Sends numbered messages of SIZE bytes by UDP, each when the answer to the one
 * before has come, and after PAUSE us on average if that is given; checks every
 * byte of the answers, and gives up when three in a row have not come. The server
 * sends back what it gets with each byte inverted, until a message of one byte
 * comes.
 */

#include <arpa/inet.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define MIN_SIZE	8
#define MAX_SIZE	1400
#define MAX_LOST	3
/* Of the first request, in a row */
#define MAX_REFUSED	500

static uint8_t message[MAX_SIZE + 1], answer[MAX_SIZE + 1];

static _Noreturn void fatal(const char *what)
{
	fprintf(stderr, "udprr: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);

	return time.tv_sec * 1000000000ULL + time.tv_nsec;
}

static void invert(uint8_t *bytes, size_t size)
{
	size_t i;

	for (i = 0; i < size; i++)
		bytes[i] = ~bytes[i];
}

static int serve(int fd, struct sockaddr_in *own)
{
	struct sockaddr_in peer;
	socklen_t len;
	ssize_t size;

	own->sin_addr.s_addr = htonl(INADDR_ANY);
	if (bind(fd, (struct sockaddr *)own, sizeof(*own)))
		fatal("bind");
	for (;;) {
		len = sizeof(peer);
		size = recvfrom(fd, message, sizeof(message), 0,
				(struct sockaddr *)&peer, &len);
		if (size < 0)
			fatal("receive");
		if (size == 1)
			return 0;
		invert(message, size);
		if (sendto(fd, message, size, 0, (struct sockaddr *)&peer, len) < 0)
			fatal("send");
	}
}

static void fill(uint64_t number, size_t size)
{
	size_t i;

	memcpy(message, &number, sizeof(number));
	for (i = sizeof(number); i < size; i++)
		message[i] = number + i;
}

static int smaller(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* 0 to 2 * mean us, the same in each run: Marsaglia's xorshift */
static void wait_a_while(unsigned long mean)
{
	static uint64_t state = 88172645463325252ULL;

	if (!mean)
		return;
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	usleep(state % (2 * mean + 1));
}

static int request(int fd, size_t size, unsigned long requests,
		   unsigned long pause)
{
	unsigned long i = 0, lost = 0, in_a_row = 0, errors = 0, refused = 0;
	uint32_t *times = malloc(requests * sizeof(*times));
	uint64_t begin, total = 0;
	ssize_t got;

	if (!times)
		fatal("memory");
	while (i < requests && in_a_row < MAX_LOST) {
		wait_a_while(pause);
		fill(i + 1, size);
		begin = now();
		if (send(fd, message, size, 0) < 0)
			fatal("send");
		got = recv(fd, answer, sizeof(answer), 0);
		/* The server may not serve yet. */
		if (got < 0 && errno == ECONNREFUSED && !i && refused++ < MAX_REFUSED) {
			usleep(10000);
			continue;
		}
		times[i] = now() - begin;
		total += times[i++];
		if (got < 0) {
			if (errno != EAGAIN)
				fatal("receive");
			lost++;
			in_a_row++;
			continue;
		}
		in_a_row = 0;
		invert(answer, got);
		if (got != (ssize_t)size || memcmp(answer, message, size))
			errors++;
	}
	requests = i;
	/* The server ends. */
	send(fd, message, 1, 0);

	qsort(times, requests, sizeof(*times), smaller);
	printf("requests=%lu\nlost=%lu\nerrors=%lu\n", requests, lost, errors);
	printf("time_us=%llu\nrate=%llu\n", (unsigned long long)total / 1000,
	       (unsigned long long)(requests * 1000000000ULL / (total ? : 1)));
	printf("latency_p50_ns=%u\nlatency_p99_ns=%u\nlatency_max_ns=%u\n",
	       times[requests / 2], times[requests * 99 / 100],
	       times[requests - 1]);

	return lost || errors;
}

int main(int argc, char **argv)
{
	struct sockaddr_in peer = { .sin_family = AF_INET };
	/* A message that is lost is answered by nobody. */
	struct timeval patience = { .tv_sec = 1 };
	int fd = socket(AF_INET, SOCK_DGRAM, 0);
	unsigned long size, requests, pause;

	if (fd < 0)
		fatal("socket");
	if (argc == 3 && !strcmp(argv[1], "serve")) {
		peer.sin_port = htons(atoi(argv[2]));
		return serve(fd, &peer);
	}
	if (argc < 5 || argc > 6 || inet_pton(AF_INET, argv[1], &peer.sin_addr) != 1) {
		fprintf(stderr, "usage: udprr serve PORT\n"
				"       udprr ADDRESS PORT SIZE REQUESTS [PAUSE]\n");
		return 2;
	}
	peer.sin_port = htons(atoi(argv[2]));
	size = strtoul(argv[3], NULL, 0);
	requests = strtoul(argv[4], NULL, 0);
	pause = argc == 6 ? strtoul(argv[5], NULL, 0) : 0;
	if (pause > 1000000) {
		fprintf(stderr, "udprr: a pause has 1000000 us at most, not %s\n",
			argv[5]);
		return 2;
	}
	if (size < MIN_SIZE || size > MAX_SIZE || !requests) {
		fprintf(stderr, "udprr: a message has %d to %d bytes, not %s\n",
			MIN_SIZE, MAX_SIZE, argv[3]);
		return 2;
	}
	if (connect(fd, (struct sockaddr *)&peer, sizeof(peer)) ||
	    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)))
		fatal("connect");

	return request(fd, size, requests, pause);
}

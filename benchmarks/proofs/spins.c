/* Work like a compiler's, to see the speed that a compiler sees: 512 functions of their own code, called in an order
 * that depends on data, each with branches that no predictor knows, on 4 MiB of records in fresh pages.
 * Prints the nanoseconds of CPU time that it took: being preempted is not the CPU's doing. */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#define RECORDS (1u << 17)
#define STEPS 600000u

struct record {
	uint32_t kind, left, right, value, rest[4];
};
typedef uint32_t step(struct record *all, uint32_t at);

#define STEP(a)                                                                                                        \
	static uint32_t step##a(struct record *all, uint32_t at)                                                       \
	{                                                                                                              \
		struct record *one = &all[at % RECORDS];                                                               \
		uint32_t h = one->value * 2654435761u + a##u;                                                          \
		if (h & 1u << (a % 19 + 3)) {                                                                          \
			one->left ^= h >> 5;                                                                           \
			h += one->right * (a##u | 1);                                                                  \
		} else {                                                                                               \
			one->right += h << 3;                                                                          \
			h ^= one->left >> (a % 7 + 1);                                                                 \
		}                                                                                                      \
		if ((h ^ one->kind) % (a % 11 + 2) == 0) {                                                             \
			struct record *other = &all[h % RECORDS];                                                      \
			other->value += one->value ^ a##u;                                                             \
			h += other->kind * 31 + other->left;                                                           \
		}                                                                                                      \
		switch ((h >> 9) & 7) {                                                                                \
		case 0: h = h * 33 + a##u; break;                                                                      \
		case 1: h ^= h << 13; break;                                                                           \
		case 2: h ^= h >> 17; break;                                                                           \
		case 3: one->value = h; break;                                                                         \
		case 4: h += one->value / (a % 13 + 3); break;                                                         \
		case 5: one->kind = h & 1023; break;                                                                   \
		case 6: h = (h << 7) | (h >> 25); break;                                                               \
		default: h -= a##u;                                                                                    \
		}                                                                                                      \
		one->value += h;                                                                                       \
		return h;                                                                                              \
	}
#define EACH8(of, a) of(a##0) of(a##1) of(a##2) of(a##3) of(a##4) of(a##5) of(a##6) of(a##7)
#define EACH64(of, a)                                                                                                  \
	EACH8(of, a##0) EACH8(of, a##1) EACH8(of, a##2) EACH8(of, a##3)                                                \
	EACH8(of, a##4) EACH8(of, a##5) EACH8(of, a##6) EACH8(of, a##7)
#define EACH512(of)                                                                                                    \
	EACH64(of, 1) EACH64(of, 2) EACH64(of, 3) EACH64(of, 4) EACH64(of, 5) EACH64(of, 6) EACH64(of, 7) EACH64(of, 8)
#define NAME(a) step##a,
EACH512(STEP)
static step *const steps[512] = { EACH512(NAME) };

static int64_t cpu_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

int main(void)
{
	int64_t start = cpu_ns();
	size_t size = RECORDS * sizeof(struct record);
	struct record *all = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (all == MAP_FAILED)
		return 1;
	madvise(all, size, MADV_NOHUGEPAGE);
	uint32_t x = 12345, h = 1;
	for (uint32_t i = 0; i < RECORDS; i++) {
		x = x * 1664525u + 1013904223u;
		all[i].kind = x >> 22;
		all[i].left = x >> 3;
		all[i].right = x >> 5;
		all[i].value = x;
	}
	for (uint32_t i = 0; i < STEPS; i++)
		h = steps[h >> 23](all, h ^ i * 40503u);
	volatile uint32_t sink = h;
	(void)sink;
	printf("%lld\n", (long long)(cpu_ns() - start));
	return 0;
}

/* pace.c -- see pace.h.
 *
 * Times are kept in doubles relative to the start: exact to 1 ns for 100 days.
 */
#include "pace.h"

#include "common/clock.h"

static double gap_ns(struct pace *p)
{
    return p->kind == PACE_POISSON ? rng_exponential(&p->rng, p->gap_ns)
                                   : p->gap_ns;
}

struct pace pace_make(enum pace_kind kind, double rate, double phase,
                      uint64_t start_ns, struct rng rng)
{
    struct pace p = {.kind = kind,
                     .gap_ns = (double)NS_PER_S / rate,
                     .start_ns = start_ns,
                     .rng = rng};
    p.next_ns = kind == PACE_POISSON ? gap_ns(&p) : phase * p.gap_ns;
    return p;
}

uint64_t pace_next(struct pace *p)
{
    uint64_t due = pace_due_ns(p);
    p->next_ns += gap_ns(p);
    return due;
}

void pace_put_off(struct pace *p, uint64_t now_ns)
{
    if (pace_due_ns(p) < now_ns)
        p->next_ns = (double)(now_ns - p->start_ns);
}

struct meter meter_make(double bytes_per_s)
{
    return (struct meter){
        .ns_per_byte = bytes_per_s > 0 ? (double)NS_PER_S / bytes_per_s : 0};
}

uint64_t meter_book(struct meter *m, uint64_t now_ns, uint64_t bytes)
{
    if (m->ns_per_byte == 0)
        return now_ns;
    uint64_t when = m->free_ns > now_ns ? m->free_ns : now_ns;
    m->free_ns = when + (uint64_t)(m->ns_per_byte * (double)bytes + 0.5);
    return when;
}

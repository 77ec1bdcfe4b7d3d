/* test_flow.c -- when a client is received from one by one, and when not. */
#include <assert.h>
#include <stdio.h>

#include "uring/flow.h"

enum { SMALL = 4096 };

static void receive(struct flow *flow, unsigned times, size_t bytes)
{
    while (times-- > 0)
        flow_received(flow, bytes, SMALL);
}

static void a_full_buffer_slows_and_small_messages_lead_back(void)
{
    struct flow flow = {0};
    assert(!flow.one_shot && flow_slow(&flow) && flow.one_shot);
    assert(!flow_slow(&flow)); /* it is already: nothing to cancel */
    receive(&flow, FLOW_FITS_FIRST - 1, 64);
    assert(flow.one_shot);
    receive(&flow, 1, 64);
    assert(!flow.one_shot);
}

static void a_large_message_begins_the_count_anew(void)
{
    struct flow flow = {0};
    flow_slow(&flow);
    for (int i = 0; i < 100; i++) {
        receive(&flow, FLOW_FITS_FIRST - 1, SMALL - 1);
        receive(&flow, 1, SMALL);
    }
    assert(flow.one_shot);
}

/* Messages of 64 bytes and bursts by turns: each change takes a cancellation,
 * so there are few of them. */
static void relapses_make_it_stay_for_longer(void)
{
    struct flow flow = {0};
    unsigned changes = 0;
    for (int i = 0; i < 1000; i++) {
        changes += flow_slow(&flow);
        receive(&flow, 2 * FLOW_FITS_FIRST, 64);
    }
    assert(changes == 3 && flow.one_shot);
    receive(&flow, FLOW_FITS_MOST, 64);
    assert(!flow.one_shot);
}

int main(void)
{
    a_full_buffer_slows_and_small_messages_lead_back();
    a_large_message_begins_the_count_anew();
    relapses_make_it_stay_for_longer();
    puts("test_flow: passed");
    return 0;
}

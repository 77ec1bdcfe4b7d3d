/* client_slices.h -- targets take turns: slices, rounds, and their rows.
 *
 *     round   a slice of every target, in an order shuffled by the seed
 *     slice   |-- lead-in --|------------ counted ------------|-- drain --|
 *             begin         begin + lead-in       begin + slice         last
 *                                                 (the edge)          answer
 *
 * From its beginning to its edge the users of one target ask, all others rest;
 * then nobody begins a request, and the slice ends with the last answer. All
 * targets are at rest at both ends.
 *
 * A closed loop without think times is steady while all of its users wait for
 * an answer. So all of them begin before the first answer is read, and the edge
 * waits until each has had 25 answers, on average, or eight where that takes
 * longer than five times --slice (25 times --slice at most). What a connection
 * takes in memory has left the caches by its next turn, and the first answer of
 * each pays for that: a third more. And who of server and client waits for the
 * other is left to chance at first: rates of slices of 35 ms scattered four
 * times as much as those of 100 ms, at 1000 connections. With 50 users all this
 * is over long before 20 ms are; 1000 need 100 ms.
 * Clients at fixed moments (--pause) do not wait.
 *
 * With several threads the first one says whose turn it is, once all have come
 * to rest; they begin and stop by the same clock. A target that leaves requests
 * unanswered for --drain seconds after the edge is given up (hung); one whose
 * users are all gone has no more turns.
 *
 * What is counted where:
 *     requests, bytes, seconds, response times: after the lead-in, up to the
 *     last answer (but at least to the edge). The lead-in ends with requests in
 *     flight, as the measurement of a plain run begins.
 *     CPU times, steal, busy: of the whole slice, from rest to rest, since only
 *     the CPU clock of a server that rests is exact (client_watch.h). CPU per
 *     request is server_cpu_ns / (lead_in_requests + requests).
 *
 * Rounds go on until --duration is over and each target that is left has had
 * --response-times of its own counted (seconds / mean response), but not beyond
 * --duration-max.
 *
 * --late TIME, for the open loop: a slice in which the client was late counts
 * for nothing, since what it measured was the client, or what took its core
 * away. Its target has another turn at the end of the round, so that a round
 * holds one slice of each in which the client was on time: the rule is the same
 * for all, and a pause of the machine costs the slice that it struck, not those
 * of all targets. Late is a slice of which 1 % of the requests left later than
 * TIME, and later than a tenth of the slice's own p99 response time, below
 * which it cannot matter; the last slice of a target that ended is kept.
 * Repeated slices take as long as --duration at most. From then on a round with
 * a late slice is set aside for all targets. If none was on time by then, the
 * next one counts, and the lag in the result says so.
 *
 * Response times have a sum per slice and a histogram per run. The p99 of a run
 * holds all that struck the target, whoever did it: on a shared machine it
 * differs by half from run to run. With --late each slice has a p99 of its own,
 * and the median over rounds of these says what an ordinary slice is like. It
 * leaves out what strikes fewer than half of them, so these are two quantities
 * with two names; the second can be compared round by round.
 *
 * Columns of --slices FILE, a row per slice, written a round at a time:
 *     round             from 0 on, warm-up included
 *     counted           1; 0 for slices of the warm-up and late ones, which
 *                       totals and histograms leave out
 *     late              1: the slice was repeated, or its round was set aside
 *                       (--late); else 0
 *     position          in the round's order, from 0 on; repeated ones follow
 *     target            number on the command line, from 0 on
 *     begin_ns          since the load began, of the slice
 *     lead_in_requests  answered before the lead-in was over
 *     seconds           of the counted part
 *     requests          answered in it
 *     bytes             received in it
 *     response_ns       from the intended send to the answer, in all of them;
 *                       open loop: in all that were due in it, so that those of
 *                       the lead-in that were answered later are not in it
 *     slice_seconds     of the whole slice, rest to rest
 *     server_cpu_ns     of the processes of --watch, whole slice; empty without
 *     rest_cpu_ns       the same, from the end of the target's slice before to
 *                       the beginning of this one: what it used while resting,
 *                       and what its clock showed late
 *     client_cpu_ns     of the client's threads, whole slice
 *     probed, waiting   requests in flight that were looked at, and those of
 *                       them whose answer lay unread in the client's socket
 *     busy_ns           of the cores that client and watched processes may use,
 *                       with both of them in it; in ticks of 10 ms, whole slice
 *     steal_ns          taken from these cores by the host; likewise
 *     lag_p99_ns        with --late: how late requests of the slice left; of
 *                       several threads the latest; empty without
 *     response_p99_ns   with --late: of the slice's requests, from the intended
 *                       send; of several threads the longest; empty without
 *     errors            failures since the target's slice before
 *     ended             gone or hung: its last slice; else empty
 * What others used: busy_ns less server_, rest_ and client_cpu_ns, over rounds.
 */
#ifndef CLIENT_SLICES_H
#define CLIENT_SLICES_H

#include <stdint.h>

struct client_thread;

/* Loading, and it is time to see whether a slice begins or ends: the thread
 * joins it, drains, leaves it, or is over. */
void thread_take_turns(struct client_thread *t, uint64_t now_ns);

#endif

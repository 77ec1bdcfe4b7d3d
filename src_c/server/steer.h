/* steer.h -- which listening socket of a port gets a connection: --steer cpu.
 *
 * Sockets that share a port (SO_REUSEPORT, Linux 3.9) get connections by a hash
 * of the addresses, whatever core the packets came in on. A program of classic
 * BPF can choose instead (SO_ATTACH_REUSEPORT_CBPF, for TCP of Linux 4.6; by
 * anybody): here the socket whose number is that of the CPU which handles the
 * SYN, modulo their number. With workers pinned to CPUs in the same order, a
 * connection stays on one core from its first packet on.
 *
 * On a network card that CPU is the one which its receive queue interrupts; on
 * loopback it is the client's. Envoy chooses a worker for QUIC in this way,
 * nginx (quic_bpf) with a program of extended BPF.
 */
#ifndef STEER_H
#define STEER_H

/* For `count` listening sockets of one port, of which `fd` is one; they are
 * numbered in the order in which they began to listen. Dies on failure. */
void steer_by_cpu(int fd, unsigned count);

#endif

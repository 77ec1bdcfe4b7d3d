/* select.h -- how many sockets a set of the model select holds.
 *
 * On Windows FD_SETSIZE counts sockets, not numbers of descriptors, and is 64
 * unless it is defined before winsock2.h is included, as select.c does.
 */
#ifndef WINSOCK_SELECT_H
#define WINSOCK_SELECT_H

#define SELECT_PLACES 32768u

#endif

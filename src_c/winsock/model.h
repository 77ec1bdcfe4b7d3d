/* model.h -- what a model of the Winsock server gets and does.
 *
 * A model answers one question: how do we wait for many clients? It gets a
 * listening socket and echoes what clients send until the process ends. One
 * model is one file in models/ and one row in models.def.
 */
#ifndef WINSOCK_MODEL_H
#define WINSOCK_MODEL_H

/* In this order: windows.h alone would bring in the older winsock.h. */
#include <winsock2.h>
#include <ws2tcpip.h>
#include <windows.h>

#include <stdbool.h>
#include <stdint.h>

/* The flags of the command line, checked. */
struct options {
    const char *host;
    const char *port;
    int backlog;
    unsigned workers;    /* 0: not given, one a processor */
    unsigned fd_setsize; /* 0: not given, as many as were compiled in */
    bool until_eof;      /* the end of standard input stops the server */
};

struct server;

/* A row of models.def. */
struct model {
    const char *name, *family, *label;
    const char *holds;     /* the resource that ends its connections */
    const char *workers;   /* where its threads come from */
    unsigned workers_each; /* threads a connection */
    void (*run)(const struct server *server);
};

struct server {
    const struct model *model;
    struct options options;
    SOCKET listener;  /* blocking, until the model sets it otherwise */
    unsigned workers; /* threads that a model with "fixed" ones runs */
};

/* What the file of a model exports: serves until the process ends. */
#define MODEL(symbol, ...) _Noreturn void symbol##_run(const struct server *);
#include "winsock/models.def"
#undef MODEL

#endif

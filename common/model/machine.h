// machine.h: what is known about a machine, so that a program's time on it can be modelled without
// having one.
//
// To get a machine, call machine_find(). To ask how long it takes, call machine_kernel_seconds()
// for a kernel and machine_route() for a copy. To model a whole program's time on it, start the
// modelled clock (modelled_clock.h).
//
// A machine is one host or several, with the same number of devices each. A small text file says
// how fast a device computes, how fast its memory is, what a launch costs the host, and how devices
// are connected. Its lines are "field value unit", and # begins a comment. The files in
// common/model/machines/ are built into the programs, and they say where each figure comes from.
// Your own file can be given by its path; `--machine print:NAME` prints a file to begin with. These
// are the fields:
//
//     about             a line of English
//     devices           8                          # per host
//     memory            40 GB                      # per device
//     fp32              19.5 TFLOP/s
//     tf32              156 TFLOP/s                # optional; default: fp32
//     fp16              312 TFLOP/s 87 %           # optional: products of 16-bit numbers, and the
//                                                  # part that they reach
//     multiprocessors   108                        # GPUs only
//     product           80 % 70 %                  # efficiency in fp32, and in tf32 (optional;
//     convolution       60 % 20 %                  # default: as in fp32). A convolution may exceed
//                                                  # 100 %, by methods that need fewer FLOP
//     convolution_3x3   70 % 70 % 50 %             # these four are optional; default: convolution.
//     convolution_large 70 % 70 % 50 %             # Forward, backward to the input, and backward
//     convolution_plain 40 % 40 % 40 %             # to the parameters; kernels/cost.h says which
//     convolution_thin  10 % 10 % 10 %             # convolutions have which form
//     elements          90 %                       # efficiency[COST_ELEMENTS]
//     memory_bandwidth  1555 GB/s
//     kernel            2 us
//     launch            4 us
//     event             0.5 us                     # optional; default: 0
//     graph_launch      6 us
//     graph_kernel      1 us
//     framework         10 us
//     link              switch 300 GB/s 3 us       # or tree or host, without figures; or
//     link              mesh 3 us                  # mesh, with pairs of devices:
//     pair              0 3 50 GB/s                # each pair once, for both directions
//     host_link         22 GB/s 5 us
//     devices_per_root  2                          # these two are needed where devices reach each
//     root_bandwidth    22 GB/s                    # other by PCIe; elsewhere each has a root port
//     cards             8                          # optional; default: 0
//     network           25 GB/s 10 us              # if there are cards
#pragma once

#include <stdbool.h>
#include <stdio.h>
#include "kernels/cost.h"
#include "simulation.h"

typedef enum {
    LINKS_SWITCH, // any device to any other at full rate: each has a port out and a port in
    LINKS_TREE,   // by PCIe: some devices share a root port, and roots are connected
    LINKS_HOST,   // by PCIe to the host's memory and back: devices without peer-to-peer access
    LINKS_MESH,   // between the pairs that the file names; other pairs use PCIe
} LinkKind;

// A path that bytes take. Times in seconds, rates in bytes per second, each way.
typedef struct Link {
    double bandwidth, latency;
} Link;

typedef struct Machine {
    char name[32]; // "dgx-a100"; if it was read from your file, the file's name without its suffix
    char *about;   // a line of English
    int devices;   // per host
    double memory; // bytes per device
    double fp32;   // peak FLOP/s of a device
    double tf32;   // the same in products of matrices with --tf32
    double fp16;   // the same in products of 16-bit numbers; 0: the file does not say
    double fp16_efficiency;
    int multiprocessors;               // of a GPU; 0 if it is none, and has no waves
    double efficiency[NUM_COST_KINDS]; // the part of the peak that kernels reach. COST_ELEMENTS:
                                       // the part of the memory's bandwidth that all kernels reach
    double tf32_efficiency[NUM_COST_KINDS];    // in products and convolutions; 0: as in fp32
    double convolution[NUM_FORMS][NUM_PASSES]; // efficiency of each form of convolution
    double memory_bandwidth;                   // bytes/s of a device
    double kernel;       // seconds that each launch costs its device, besides the work
    double launch;       // seconds that each launch or copy costs the host
    double event;        // seconds for the host to record an event and make another queue wait
    double graph_launch; // seconds that a whole graph costs the host,
    double graph_kernel; // and that each launch in it costs its device, instead of `kernel`
    double framework;    // `launch` in a framework written in Python
    LinkKind links;
    Link link;             // between a host's devices. Mesh: the fastest; by PCIe: host_link
    Link host_link;        // between a device and its host, by PCIe
    int devices_per_root;  // devices that share a PCIe root port, also on the way to their host
    double root_bandwidth; // of a root port
    int cards;             // network cards per host; 0: there is only one host
    Link network;          // from a card to any other
    double (*mesh)[16];    // [from][to]: bandwidth, or 0 if not linked. NULL without LINKS_MESH
} Machine;

// Finds a machine by its name, or reads it from a file if `name` has a '/' or a '.' in it. die()s
// with file, line, field and what was expected there; die_usage()s if no machine has this name. The
// machine lives as long as the program, and the same name always gives the same machine.
const Machine *machine_find(const char *name);
// Prints a table of the machines that are built in.
void machine_list(FILE *out);
// The files of these machines, sorted by name. {NULL, NULL} ends the list.
typedef struct MachineFile {
    const char *name, *text;
} MachineFile;
extern const MachineFile machine_files[];
// The file of the machine with this name that is built in; die_usage()s if there is none.
const char *machine_text(const char *name);
// Bytes of a size that is written as in the files, "60MB" or "40 GB". NAN if the text is not a
// size, or not one that a device can have.
double machine_bytes(const char *text);
// Makes a machine from the text of such a file. Messages call the file `name`.
const Machine *machine_parse(const char *name, const char *text);

// The same machine, but parts of it cost nothing. The time that a step then saves is what those
// parts cost. Stop the clock before the returned machine goes out of scope.
enum {
    FREE_MEMORY = 1,  // a device has as much as it needs
    FREE_LINKS = 2,   // copies take no time
    FREE_DEVICES = 4, // kernels take no time, but their launches still do
};
Machine machine_with_free(const Machine *machine, unsigned parts); // FREE_LINKS | FREE_DEVICES

// Whether it can have that many devices. Only hosts with network cards can be more than one.
bool machine_has_devices(const Machine *machine, int count);

// Seconds that a device needs for a kernel, not counting the launches. The arithmetic and the bytes
// take their time side by side, so the longer one counts (the roofline). The time for what is moved
// besides is added. On a GPU a product runs in waves; see machine.c.
double machine_kernel_seconds(const Machine *machine, KernelTraffic traffic, bool tf32);

// The route from one device to another. The ports that it passes are numbered 0 to
// machine_ports()-1. Each carries one copy at a time, in one direction, and is free for the next as
// soon as its own bandwidth allows. Device d is on host d / machine->devices.
//
//     switch      out of one device, into the other
//     mesh        the port between the two; by PCIe if they have none
//     by PCIe     out of one device, into the other; up one root port and down the other if they
//                 have different ones, or if devices cannot reach each other (LINKS_HOST: two
//                 copies, so the latency of host_link twice)
//     the host    by PCIe: out of the device and up its root port, or down and into it
//     network     out of the device by PCIe, out of the card of its host that serves it, into the
//                 card that serves the other, into that one by PCIe; the network's latency
enum { HOST_MEMORY = -1, MAX_PORTS = 4 };
typedef struct Route {
    Link link;                // the bandwidth of the slowest part, the latency of the whole
    PortUse ports[MAX_PORTS]; // no port twice
    int num_ports;
} Route;
int machine_ports(const Machine *machine, int num_devices);
// from and to are device numbers; HOST_MEMORY is the memory of the host that the other side is on
// (each host has the data set). Not for from == to.
Route machine_route(const Machine *machine, int from, int to);

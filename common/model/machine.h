// machine.h: machines whose time can be modelled, without having one.
//
// To get a machine, call machine_find(). To ask what it takes, call machine_kernel_seconds() for a
// kernel and machine_route() for a copy. To let a program's work pass on it, start the modelled
// clock (modelled_clock.h).
//
// A machine is some hosts with some devices each: how fast a device computes, how fast its memory
// is, what a launch costs the host, and how devices are connected. Each is a small text file of
// lines "field value unit", with # before comments; those in common/model/machines/ are built into
// the programs, and your own file can be given by its path. The fields are listed below; where a
// figure comes from, is said in the files. `--machine print:NAME` prints one, and `--machine
// print:this` measures this computer and prints what it found.
//
//     about             a line of English
//     devices           8                          # of a host
//     memory            40 GB
//     fp32              19.5 TFLOP/s
//     tf32              156 TFLOP/s                # may be left out: as fp32
//     multiprocessors   108                        # of a GPU; left out, it is no GPU
//     product           80 % 70 %                  # efficiency in fp32, and in tf32 (which may be
//     convolution       60 % 20 %                  # left out: as in fp32). Of convolutions it may
//                                                  # be above 100 %, by methods of fewer FLOP
//     convolution_3x3   70 % 70 % 50 %             # these four may be left out: as convolution;
//     convolution_large 70 % 70 % 50 %             # forward, backward to the input and to the
//     convolution_plain 40 % 40 % 40 %             # parameters; the forms are those of
//     convolution_thin  10 % 10 % 10 %             # kernels/cost.h
//     elements          90 %                       # efficiency[COST_ELEMENTS]
//     memory_bandwidth  1555 GB/s
//     kernel            2 us
//     launch            4 us
//     event             0.5 us                     # may be left out: 0
//     graph_launch      6 us
//     graph_kernel      1 us
//     framework         10 us
//     link              switch 300 GB/s 3 us       # or tree or host, without figures; or
//     link              mesh 3 us                  # mesh, with pairs of devices:
//     pair              0 3 50 GB/s                # once each, for both ways
//     host_link         22 GB/s 5 us
//     devices_per_root  2                          # these two are needed where devices reach each
//     root_bandwidth    22 GB/s                    # other by PCIe; else each has a root port
//     cards             8                          # may be left out: 0
//     network           25 GB/s 10 us              # if there are cards
#ifndef MACHINE_H
#define MACHINE_H

#include <stdbool.h>
#include <stdio.h>
#include "kernels/cost.h"
#include "simulation.h"

typedef enum {
    LINKS_SWITCH, // any device to any other at full rate: each has a port out and a port in
    LINKS_TREE,   // by PCIe: some devices share a root port, and roots are connected
    LINKS_HOST,   // by PCIe to the host's memory and back: devices without peer-to-peer access
    LINKS_MESH,   // between the pairs that the file names; all other pairs by PCIe
} LinkKind;

// A path that bytes take. Times in seconds, rates in bytes per second, each way.
typedef struct Link {
    double bandwidth, latency;
} Link;

typedef struct Machine {
    char name[32]; // "dgx-a100"; of a file, its name without folder and suffix
    char *about;   // a line of English
    int devices;   // of a host
    double memory; // bytes of a device
    double fp32;   // peak FLOP/s of a device
    double tf32;   // peak FLOP/s in products of matrices with --tf32; as fp32 if there is none
    int multiprocessors;               // of a GPU; 0: a CPU, or nothing that works in waves
    double efficiency[NUM_COST_KINDS]; // the part of the peak that is reached; for COST_ELEMENTS,
                                       // that of the memory's bandwidth, for all kernels
    double tf32_efficiency[NUM_COST_KINDS];    // of products and convolutions; 0: as in fp32
    double convolution[NUM_FORMS][NUM_PASSES]; // efficiency of each form of convolution
    double memory_bandwidth;                   // bytes/s of a device
    double kernel;       // seconds that each launch takes on its device, besides its work
    double launch;       // seconds of the host for each launch and each copy
    double event;        // seconds of the host to record an event and let another queue wait for it
    double graph_launch; // seconds of the host for a whole graph,
    double graph_kernel; // and of the device for each launch in it, instead of `kernel`
    double framework;    // as launch, in a framework written in Python
    LinkKind links;
    Link link;             // between devices of a host; of a mesh, the fastest; by PCIe, host_link
    Link host_link;        // between a device and its host, by PCIe
    int devices_per_root;  // devices that share a root port of PCIe, which is that to the host, too
    double root_bandwidth; // of a root port
    int cards;             // network cards of a host; 0: there is one host only
    Link network;          // of a card, to any other
    double (*mesh)[16];    // [from][to]: bandwidth of LINKS_MESH, 0: none; else NULL
} Machine;

// By name, or from a file if `name` has a '/' or a '.' in it. die()s with file, line and field, and
// with what was expected there; die_usage()s if no machine has this name. The machine lives as long
// as the program, and the same name gives the same one.
const Machine *machine_find(const char *name);
// A table of those that are built in.
void machine_list(FILE *out);
// Their files, in the order of names, and after the last one {NULL, NULL}.
typedef struct MachineFile {
    const char *name, *text;
} MachineFile;
extern const MachineFile machine_files[];
// The file of a machine that is built in; die_usage()s if there is none of this name.
const char *machine_text(const char *name);
// "60MB" or "40 GB", a size as in the files: bytes. NAN if the text is none, or no device has that.
double machine_bytes(const char *text);
// A new machine from the text of such a file; messages call it `name`.
const Machine *machine_parse(const char *name, const char *text);

// Measures, in about two seconds, the computer at hand, and writes down what it found as the text
// of a machine file, each figure with how it was found; to be given to machine_parse() and to
// free(). Its devices are of the kind that devices_init() chose. A CPU device has that many
// threads, at least 1 (a GPU ignores it). The machine has as many devices as then have cores of
// their own, but at least `devices`. Cores share caches and memory, so `devices` of those with
// cores of their own compute at the same time while they are measured; 0: all of them. Other
// programs that run at the same time make it look slower than it is.
//
// To be called before the first device is opened; ends with devices_close().
char *machine_this(int threads, int devices);
// How many devices with so many threads have cores of their own, or a GPU; at least 1.
int devices_that_fit(int threads);

// The same machine, but parts of it cost nothing: the time that a step then saves is what those
// parts cost. Stop the clock before the returned machine goes out of scope.
enum {
    FREE_MEMORY = 1,  // a device has as much as it needs
    FREE_LINKS = 2,   // copies take no time
    FREE_DEVICES = 4, // kernels take no time: only the hosts, which launch them, do
};
Machine machine_with_free(const Machine *machine, unsigned parts); // FREE_LINKS | FREE_DEVICES

// How many devices it can have: those of its host, or any number where hosts have network cards.
bool machine_has_devices(const Machine *machine, int count);

// Seconds that a device needs for a kernel, without what each launch takes: as long as its
// arithmetic or its bytes take, whichever is more (the roofline), plus what is moved besides. On a
// GPU a product runs in waves; see machine.c.
double machine_kernel_seconds(const Machine *machine, KernelTraffic traffic, bool tf32);
// Whose kernels it runs, unless a framework's are asked for: ours, on a GPU or on a CPU.
Software machine_software(const Machine *machine);

// The route from one device to another. The ports that it passes are numbered 0 to
// machine_ports()-1. Each carries one copy at a time, in one direction, and is free for the next as
// soon as its own bandwidth allows. Device d is on host d / machine->devices.
//
//     switch      out of one device, into the other
//     mesh        the one between the two; by PCIe if there is none
//     by PCIe     out of one device, into the other; up one root port and down the other if they
//                 have different ones, or if devices cannot reach each other (LINKS_HOST: two
//                 copies, so the latency of host_link twice)
//     the host    by PCIe: out of the device and up its root port, or down and into it
//     network     out of the device by PCIe, out of the card of its host that serves it, into the
//                 card that serves the other, into that one by PCIe; the network's latency
enum { HOST_MEMORY = -1, MAX_PORTS = 4 };
typedef struct Route {
    Link link;                // the slowest part's bandwidth, the latency of the whole
    PortUse ports[MAX_PORTS]; // without repetition
    int num_ports;
} Route;
int machine_ports(const Machine *machine, int num_devices);
// from and to are device numbers; HOST_MEMORY is the memory of the host that the other side is on
// (each host has the data set). Not for from == to.
Route machine_route(const Machine *machine, int from, int to);

#endif

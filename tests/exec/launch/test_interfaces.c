/* Processes of one run meet over the interface that --rendezvous names: on loopback by its address,
 * and between two network namespaces that share one link and nothing else. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/commands/command_fixture.h"
#include "tests/lib/files/file_fixture.h"
#include "tests/lib/files/says.h"

#define RANK(rank, address)                                                                        \
    "RANK=" rank " WORLD_SIZE=2 LOCAL_RANK=" rank " timeout -k 10 60 $IN$L exec -w m.json --dp 2 " \
    "--backend threads --rendezvous " address ":$PORT --steps 2 --warmup 1 --compute sleep "       \
    "--no-db --format json"

#define MODEL "$L model mlp --layers 2 --width 32 -o m.json --force >log; PORT=%d; IN=; "

static int port(int k)
{
    return 20000 + (int)getpid() % 10000 + k;
}

/* Rank 0 listens at the address alone: 127.0.0.1 at that port refuses. */
TEST(ranks_meet_at_the_address_alone)
{
    char line[1200];

    snprintf(line, sizeof line,
             MODEL "{ " RANK("0", "127.0.0.2") " >r0; } & "
                                               "for i in $(seq 200); do sleep 0.05; grep -q "
                                               "\"0200007F:$(printf %%04X $PORT) "
                                               "00000000:0000 0A\" /proc/net/tcp && break; done; "
                                               "grep -c \"0100007F:$(printf %%04X $PORT) "
                                               "00000000:0000 0A\" /proc/net/tcp; "
                                               "grep -c \"00000000:$(printf %%04X $PORT) "
                                               "00000000:0000 0A\" /proc/net/tcp; " RANK(
                                                   "1", "127.0.0.2") " >r1; wait; cat r0",
             port(0));
    int rc;
    const char *out = shell(line, &rc);
    if (strncmp(out, "0\n0\n", 4) != 0 || count_words(out, "\"verified\": true") != 1)
        fail_msg("%s", out);
}

TEST(ranks_of_two_network_namespaces_meet_over_their_link)
{
    char line[1800];
    int rc;

    shell("unshare -rmn sh -c 'mount -t tmpfs none /run && ip netns add b && ip link add v0 type "
          "veth peer name v1 netns b'",
          &rc);
    if (rc != 0) {
        printf("SKIP: no network namespaces for this user, or no ip and unshare\n");
        skip();
    }
    snprintf(line, sizeof line,
             MODEL "cat >both <<'END'\n"
                   "mount -t tmpfs none /run && ip netns add b && "
                   "ip link add v0 type veth peer name v1 netns b && "
                   "ip addr add 10.77.0.1/24 dev v0 && ip link set v0 up && "
                   "ip -n b addr add 10.77.0.2/24 dev v1 && ip -n b link set v1 up || exit 9\n"
                   "{ " RANK("0", "10.77.0.1") " >r0; } & IN='ip netns exec b '\n" RANK(
                       "1", "10.77.0.1") " >r1; wait; cat r0\nEND\n"
                                         "export L PORT IN; unshare -rmn sh both",
             port(1));
    const char *out = shell(line, &rc);
    if (rc != 0 || count_words(out, "\"verified\": true") != 1)
        fail_msg("rc %d: %s", rc, out);
}

TEST_GROUP(fixture_open, fixture_close)

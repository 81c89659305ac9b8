"""Simulates one exchange with SimGrid: the rounds of all processes on a fat tree of hosts. See tools/scale_model.py.

Reads JSON from stdin: ``network`` (nanoseconds), ``processes_of_host``, and ``rounds``: for each process and round, the
messages that it sends and receives as (peer, bytes), and the bytes that it joins. Writes the nanoseconds until the last
process is done. Uses SimGrid's model of flows that share links, with the given latencies and rates unchanged (CM02
without corrections for TCP's windows). Processes of one host do not share its memory here.
"""

import json
import sys
import tempfile

from simgrid import Actor, Engine, Host, Mailbox, this_actor

WIDTH = 32  # hosts of a switch


def platform(hosts: int, network: dict) -> str:
    """A fat tree of two levels; the upper links have the rate of all hosts below them."""
    switches = -(-hosts // WIDTH)
    # A message passes two links of a host, and two between switches: each has a part of the latency.
    latency = network["latency"] / (4 if switches > 1 else 2)
    bandwidth = 1e9 / network["byte"]
    parameters = f"2;{WIDTH},{max(2, switches)};1,{WIDTH};1,1"
    return f"""<?xml version='1.0'?>
<!DOCTYPE platform SYSTEM "https://simgrid.org/simgrid.dtd">
<platform version="4.1">
  <cluster id="tree" prefix="h" suffix="" radical="0-{WIDTH * max(2, switches) - 1}" speed="1Gf" bw="{bandwidth}Bps"
           lat="{latency}ns" loopback_bw="{1e9 / network["local_byte"]}Bps" loopback_lat="{network["local_latency"]}ns"
           topology="FAT_TREE" topo_parameters="{parameters}"/>
</platform>
"""


def process(number: int, rounds: list, network: dict) -> None:
    """One process: sends the messages of a round at the same time, then joins."""
    for index, one in enumerate(rounds):
        # The second object of each pair takes the message, so it lives until then.
        receives = [Mailbox.by_name(f"{index}:{peer}:{number}").get_async() for peer, _ in one["receives"]]
        pending = [message for message, _ in receives]
        for peer, size in one["sends"]:
            this_actor.sleep_for(network["message"] * 1e-9)
            pending.append(Mailbox.by_name(f"{index}:{number}:{peer}").put_async(index, size))
        for message in pending:
            message.wait()
        if one["joined"]:
            this_actor.sleep_for(one["joined"] * network["join_byte"] * 1e-9)


def main() -> None:
    """Simulate the exchange that stdin describes."""
    request = json.load(sys.stdin)
    network, of_host = request["network"], request["processes_of_host"]
    settings = ["network/model:CM02", "network/TCP-gamma:0", "network/crosstraffic:0", "contexts/stack-size:256"]
    engine = Engine(["replay", *(f"--cfg={one}" for one in settings), "--log=root.thresh:error"])
    with tempfile.NamedTemporaryFile("w", suffix=".xml") as file:
        file.write(platform(-(-len(request["rounds"]) // of_host), network))
        file.flush()
        engine.load_platform(file.name)
    for number, rounds in enumerate(request["rounds"]):
        Actor.create(str(number), Host.by_name(f"h{number // of_host}"), process, number, rounds, network)
    engine.run()
    print(json.dumps({"nanoseconds": Engine.clock * 1e9}))


if __name__ == "__main__":
    main()

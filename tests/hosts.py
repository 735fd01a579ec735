"""Several hosts on one machine: network namespaces of Linux, each with an address and a cable of its own to one switch.

    with Hosts(2, gbit=1) as (front, first, second):
        serve_store(front)
        agents = [host.start('torchrun', *rendezvous(front, host), 'script.py') for host in (first, second)]
        first.lose()

The front holds the switch. It trains nothing: it is the place for what must outlive a host. All share the file system.
"""

import ctypes
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

PORT = 29400
# Since 2.5 the processes share a store in rank 0's agent, which says its address in the first round only: a host that
# joins later waits for it in vain. With this every round has a store of its own.
ELASTIC = {'TORCH_DISABLE_SHARE_RDZV_TCP_STORE': '1'}
TELLS = {'LOGLEVEL': 'INFO'}  # torchrun says when it waits for other hosts
CLONE_NEWNET = 0x40000000  # of <sched.h>
# What torchrun asks about the others, in a process of its own
STORE = '''import sys, time
from torch.distributed import TCPStore
store = TCPStore(sys.argv[1], int(sys.argv[2]), is_master=True, wait_for_workers=False)
print('ready', flush=True)
while True: time.sleep(60)'''


def why_not():
    "Why this machine cannot have several hosts; None where it can."
    if sys.platform != 'linux': return 'network namespaces are of Linux'
    if os.geteuid() != 0: return 'network namespaces want root'
    missing = [name for name in ('ip', 'tc') if not shutil.which(name)]
    if missing: return f'there is no program {missing[0]} (package iproute2)'
    try:
        with Hosts(1, gbit=1): return None
    except NoHost as e: return str(e)


class NoHost(Exception): "The kernel, or a right that is missing, refuses."


def run(*command):
    "What a short command writes; raises `NoHost` with what it says to an error."
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    if done.returncode: raise NoHost(f'{" ".join(done.args)}: {done.stderr.strip()}')
    return done.stdout


class Host:
    "One network namespace, and what runs in it."
    def __init__(self, name, address=None):
        self.name, self.address, self.port, self.started = name, address, None, []

    def ip(self, *words): return run('ip', '-n', self.name, *words)

    def plug(self, front, number, gbit):
        "A cable to the front's switch; `gbit` limits both directions."
        self.front, self.port = front, f'port{number}'
        front.ip('link', 'add', self.port, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', self.name)
        front.ip('link', 'set', self.port, 'master', 'switch', 'up')
        self.ip('address', 'add', f'{self.address}/24', 'dev', 'eth0')
        self.ip('link', 'set', 'eth0', 'up')
        if gbit: self.limit(gbit)

    def limit(self, gbit):
        "Let the cable carry so many Gbit/s in each direction; None: as much as it can."
        # burst is what passes before the limit is felt: 4 ms; with less, the kernel's clock is too coarse for it
        rate = ['tbf', 'rate', f'{gbit}gbit', 'burst', round(gbit*5e5), 'latency', '50ms'] if gbit else ['noqueue']
        for host, card in ((self.front, self.port), (self, 'eth0')):
            run('tc', '-n', host.name, 'qdisc', 'replace', 'dev', card, 'root', *rate)

    def command(self, *words): return ['ip', 'netns', 'exec', self.name, *map(str, words)]

    def start(self, *command, log=None, environ=None, **kwargs):
        "Start a program here; what it writes is added to the file `log`."
        out = open(log, 'ab') if log else None
        environ = os.environ | {'GLOO_SOCKET_IFNAME': 'eth0', 'OMP_NUM_THREADS': '1'} | (environ or {})
        started = subprocess.Popen(self.command(*command), env=environ, **{'stdout': out, 'stderr': out} | kwargs)
        self.started.append(started)
        return started

    def sent(self):
        "Bytes that have left through the cable so far, with the headers of the packets."
        return int(run(*self.command('cat', '/sys/class/net/eth0/statistics/tx_bytes')))

    def unplug(self): self.front.ip('link', 'set', self.port, 'down')

    def plug_in(self): self.front.ip('link', 'set', self.port, 'up')

    def kill(self):
        "SIGKILL for every process here. The kernel still says goodbye for them: the others' connections are closed."
        for program in self.started: program.kill()  # it may be on its way here
        while found := run('ip', 'netns', 'pids', self.name).split():
            for pid in map(int, found):
                with suppress(ProcessLookupError): os.kill(pid, signal.SIGKILL)
            time.sleep(.01)

    def lose(self):
        "As when the power is gone: the others hear nothing, no goodbye either."
        self.unplug()
        self.kill()

    def remove(self):
        self.kill()
        run('ip', 'netns', 'del', self.name)


class Hosts:
    "A switch and n hosts; with so many Gbit/s in both directions of every cable. All goes away at the end."
    def __init__(self, n, gbit=None): self.n, self.gbit, self.all = n, gbit, []

    def __enter__(self):
        remove_forgotten()
        try: return self.make()
        except BaseException:
            self.__exit__()
            raise

    def make(self):
        front = self.host('front', 254)
        front.ip('link', 'add', 'switch', 'type', 'bridge')
        front.ip('address', 'add', f'{front.address}/24', 'dev', 'switch')
        front.ip('link', 'set', 'switch', 'up')
        hosts = [self.host(f'host{i}', i) for i in range(1, self.n + 1)]
        for i, host in enumerate(hosts, 1): host.plug(front, i, self.gbit)
        return front, *hosts

    def host(self, name, number):
        host = Host(f'tnb-{os.getpid()}-{name}', f'10.77.0.{number}')
        run('ip', 'netns', 'add', host.name)
        self.all.append(host)
        host.ip('link', 'set', 'lo', 'up')
        return host

    def __exit__(self, *_):
        while self.all: self.all.pop().remove()


def remove_forgotten():
    "Hosts of a test that was killed itself."
    for name in run('ip', 'netns', 'list').split():
        pid = re.fullmatch(r'tnb-(\d+)-\w+', name)
        if pid and not os.path.exists(f'/proc/{pid[1]}'):
            with suppress(NoHost): Host(name).remove()  # another test may be removing it too


def enter(name):
    "Move this process into a host; its threads so far stay where they are."
    with open(f'/run/netns/{name}') as place:
        if ctypes.CDLL(None, use_errno=True).setns(place.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f'no way into {name}')


def serve_store(front):
    "Start the store by which torchrun's agents find each other, and wait until it answers."
    store = front.start(sys.executable, '-c', STORE, front.address, PORT, stdout=subprocess.PIPE)
    assert store.stdout.readline() == b'ready\n'
    return store


def rendezvous(front, host, n=2, restarts=3, **conf):
    "torchrun's options on one of n hosts; `conf` changes how long is waited for whom, in seconds."
    waiting = {'is_host': 0, 'join_timeout': 600, 'keep_alive_interval': 1, 'keep_alive_max_attempt': 3} | conf
    return [
        '--nnodes', n, '--nproc-per-node', 1, '--max-restarts', restarts, '--local-addr', host.address,
        '--rdzv-backend', 'c10d', '--rdzv-id', 'run', '--rdzv-endpoint', f'{front.address}:{PORT}',
        '--rdzv-conf', ','.join(f'{key}={value}' for key, value in waiting.items()),
    ]


class Run:
    "One run on several hosts: the same command on each; what they write lies beside it, in `logs`."
    def __init__(self, front, out, command, **conf):
        self.front, self.out, self.command, self.conf = front, out, command, conf
        self.logs = out.with_name('logs')
        self.logs.mkdir()
        self.agents, self.store = {}, serve_store(front)

    def begin(self, host, *before):
        "Start torchrun on a host; what comes `before` it starts it."
        torchrun = Path(sys.executable).with_name('torchrun')
        log = self.logs/f'{host.name}-{time.monotonic()}'
        elastic = rendezvous(self.front, host, **self.conf)
        self.agents[host] = host.start(*before, torchrun, *elastic, *self.command, log=log, environ=ELASTIC | TELLS)

    def wait_until(self, happened):
        "Not until a time: until it has happened, or cannot happen any more."
        while not happened():
            assert all(agent.poll() is None for agent in self.agents.values()), self
            time.sleep(.01)

    def wait_for_step(self, step): self.wait_until((self.out/f'step-{step:07}').exists)

    def exit_codes(self): return [agent.wait() for agent in self.agents.values()]

    def began_at(self):
        "The steps at which processes have begun, by what the tests' script says: one entry a process."
        return sorted(int(line.split()[-1]) for line in str(self).splitlines() if 'begins at' in line)

    def __str__(self): return '\n'.join(f'{file.name}:\n{file.read_text()}' for file in sorted(self.logs.iterdir()))

    __repr__ = __str__

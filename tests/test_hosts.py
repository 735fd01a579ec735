"""Training on several hosts, here network namespaces: the same losses as in one process; a host that dies is replaced,
and the run ends by itself with the weights that it would have had."""

import json
import time
from functools import partial
from pathlib import Path

import hosts
import pytest
from conftest import BIN, begin, of_two, two_processes
from hosts import Hosts, Run, serve_store
from test_distributed import assert_same, train

from transformer_nb import checkpoints

REASON = hosts.why_not()
pytestmark = [pytest.mark.skipif(REASON is not None, reason=str(REASON)), pytest.mark.long(60)]

SCRIPT = Path(__file__).with_name('train_together.py')
STEPS = 20


@pytest.fixture
def network():
    with Hosts(3) as (front, *others): yield front, *others


@pytest.fixture(scope='module')
def whole(tmp_path_factory):
    "A run of two processes that nothing happens to."
    return train(tmp_path_factory.mktemp('whole'), STEPS, processes=2)


def test_two_hosts_are_one_process(network, tmp_path):
    alone, out = tmp_path/'alone', tmp_path/'run'
    front, *both = network[:3]
    running = [
        begin([SCRIPT, out, 6], tmp_path/host.name, first=partial(hosts.enter, host.name), environ=of_two(rank, 29500)
            | {'MASTER_ADDR': both[0].address, 'GLOO_SOCKET_IFNAME': 'eth0'})
        for rank, host in enumerate(both)
    ]
    for process in running: process.join()
    assert [process.exitcode for process in running] == [0, 0], [(tmp_path/host.name).read_text() for host in both]
    size = 8*sum(p.numel() for p in checkpoints.load(out/'averaged').model.parameters())
    assert all(host.sent() > 6*size for host in both)  # gradients have gone through the cables
    assert_same(out, train(alone, 6))


def new_run(front, folder, *options, **conf):
    "The script of the tests on several hosts; each step takes a while, so that something can happen."
    return Run(front, folder/'run', [SCRIPT, folder/'run', STEPS, '--auto', '--slow', *options], **conf)


def assert_ends_as(run, whole):
    "To the last bit, with every step in its place."
    assert set(run.exit_codes()) == {0}, run
    assert lines(run.out) == lines(whole)
    last = checkpoints.steps(whole)
    assert [path.name for path in checkpoints.steps(run.out)] == [path.name for path in last]
    for name in [path.name for path in last] + ['averaged']: assert bits(run.out/name) == bits(whole/name)


def bits(path): return {file.name: file.read_bytes() for file in path.glob('*.safetensors')}


def lines(run):
    return [(line['step'], line['loss']) for line in map(json.loads, open(run/'metrics.jsonl')) if 'loss' in line]


def replace_host(network, tmp_path, victim, loss, spare=False):
    "One of two hosts goes in the middle of the run, and another agent comes with the same command."
    front, *both = network[:3]
    run = new_run(front, tmp_path)
    for host in both: run.begin(host)
    run.wait_for_step(6)
    lost = both[victim]
    loss(lost)
    newest = checkpoints.newest(run.out).name
    run.agents.pop(lost).wait()
    if not spare: lost.plug_in()
    run.begin(network[3] if spare else lost)
    return run, int(newest.removeprefix('step-'))


@pytest.mark.slow
@pytest.mark.parametrize('victim', [0, 1])
@pytest.mark.parametrize('loss', [hosts.Host.kill, hosts.Host.lose])
def test_each_host_is_replaced(network, tmp_path, whole, victim, loss):
    run, newest = replace_host(network, tmp_path, victim, loss)
    assert_ends_as(run, whole)
    assert run.began_at()[0] == 0 and run.began_at()[1] >= newest  # no more is lost than the steps since


@pytest.mark.slow
@pytest.mark.parametrize('victim', [0, 1])
def test_silence_and_a_new_address(network, tmp_path, whole, victim):
    "Nobody answers for the lost host: the survivor's agent learns of the new one, and ends the process that waits."
    assert_ends_as(replace_host(network, tmp_path, victim, hosts.Host.lose, spare=True)[0], whole)


@pytest.mark.slow
def test_late_host(network, tmp_path, whole):
    front, first, second, _ = network
    run = new_run(front, tmp_path)
    run.begin(first)
    time.sleep(15)
    assert not run.out.exists()
    run.begin(second)
    assert_ends_as(run, whole)


@pytest.mark.slow
def test_host_that_never_comes(network, tmp_path):
    run = new_run(network[0], tmp_path, join_timeout=5)
    run.begin(network[1])
    assert run.exit_codes() == [1] and 'RendezvousTimeoutError' in str(run)


@pytest.mark.slow
def test_one_host_is_enough_and_a_second_helps(network, tmp_path, whole):
    "`--nnodes 1:2`: the first begins alone; when the second comes, both go on from the checkpoint."
    front, first, second, _ = network
    run = new_run(front, tmp_path, n='1:2', last_call_timeout=1)
    run.begin(first)
    run.wait_for_step(4)
    run.begin(second)
    assert set(run.exit_codes()) == {0}, run
    assert run.began_at()[0] == 0 and run.began_at()[1] >= 4
    assert [step for step, _ in lines(run.out)] == [step for step, _ in lines(whole)]
    assert [loss for _, loss in lines(run.out)] == pytest.approx([loss for _, loss in lines(whole)], abs=1e-10, rel=0)


@pytest.mark.slow
def test_the_survivor_goes_on_alone(network, tmp_path, whole):
    front, first, second, _ = network
    run = new_run(front, tmp_path, n='1:2', last_call_timeout=10)
    for host in (first, second): run.begin(host)
    run.wait_for_step(6)
    first.kill()
    del run.agents[first]
    assert run.exit_codes() == [0], run
    assert [step for step, _ in lines(run.out)] == [step for step, _ in lines(whole)]
    assert [loss for _, loss in lines(run.out)] == pytest.approx([loss for _, loss in lines(whole)], abs=1e-10, rel=0)


@pytest.mark.slow
def test_lost_store_ends_the_run_and_it_goes_on(network, tmp_path, whole):
    front, *both = network[:3]
    run = new_run(front, tmp_path)
    for host in both: run.begin(host)
    run.wait_for_step(6)
    front.kill()
    assert run.exit_codes() == [1, 1] and 'The connection to the C10d store has failed' in str(run)
    run.store = serve_store(front)
    for host in both: run.begin(host)
    assert_ends_as(run, whole)


@pytest.mark.slow
def test_slow_disk(network, tmp_path, whole):
    "A checkpoint takes two seconds to reach the disk; a host dies while one is being written."
    front, *both = network[:3]
    run = new_run(front, tmp_path, '--slow-disk')
    for host in both: run.begin(host)
    run.wait_for_step(4)
    while not list(run.out.glob('.step-*.tmp')): time.sleep(.01)
    both[0].kill()
    assert all(checkpoints.verify(path) is None for path in checkpoints.steps(run.out))
    run.begin(both[0])
    assert_ends_as(run, whole)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    text = ''.join(' '.join('abcdefgh'[i % n] for i in range(n)) + '\n' for n in range(2, 9) for _ in range(40))
    for lang in ('en', 'de'): (folder/f'train.{lang}').write_text(text)
    return folder


def tnb_train(data, out, steps):
    settings = '--preset tiny --batch-tokens 128 --accumulate 2 --max-len 32 --every 20 --device cpu --steps'.split()
    return ['--data', data, '--out', out, *settings, steps]


@pytest.mark.slow
def test_the_command_goes_on_by_itself(network, tmp_path, data):
    "What the lesson types, once without an accident and once with one."
    front, *both = network[:3]
    status, log = two_processes('tnb-train', *tnb_train(data, tmp_path/'whole', 100))
    assert status == [0, 0], log
    out = tmp_path/'run'
    run = Run(front, out, ['--no-python', BIN/'tnb-train', *tnb_train(data, out, 100), '--resume', 'auto'])
    for host in both: run.begin(host)
    run.wait_for_step(40)
    both[0].lose()
    both[0].plug_in()
    run.begin(both[0])
    assert_ends_as(run, tmp_path/'whole')


@pytest.mark.slow
def test_host_without_the_shared_folder(network, tmp_path, data):
    "A host that does not see the checkpoints says so in one line, and none goes on without it."
    front, first, second, _ = network
    out = tmp_path/'shared'/'run'
    status, log = two_processes('tnb-train', *tnb_train(data, out, 20))
    assert status == [0, 0], log
    run = Run(front, tmp_path/'run', ['--no-python', BIN/'tnb-train', *tnb_train(data, out, 40), '--resume', 'auto'],
        restarts=0)
    run.begin(first)
    # `ip netns exec` gives its program file systems of its own: what is mounted there, no other sees
    run.begin(second, 'sh', '-c', f'mount -t tmpfs none {out.parent} && exec "$@"', 'sh')
    assert set(run.exit_codes()) == {1}
    assert f'{out}/step-0000020: process 1 does not find what process 0 has found' in str(run)

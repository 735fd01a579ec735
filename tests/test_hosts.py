"""Training on several hosts, here network namespaces: the same losses as in one process; a host that dies is replaced,
and the run ends by itself with the weights that it would have had."""

import json
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
    "The script of the tests on several hosts."
    return Run(front, folder/'run', [SCRIPT, folder/'run', STEPS, '--auto', *options], **conf)


def held_run(front, folder, step, **conf):
    "It waits after a step, so that something can happen, until it is let go on."
    (folder/'hold').touch()
    return new_run(front, folder, '--hold', step, **conf)


def go_on(run): run.out.with_name('hold').unlink()


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
    run = held_run(front, tmp_path, 6)
    for host in both: run.begin(host)
    run.wait_for_step(6)
    lost = both[victim]
    loss(lost)
    run.agents.pop(lost).wait()
    go_on(run)
    if not spare: lost.plug_in()
    run.begin(network[3] if spare else lost)
    return run


@pytest.mark.slow
@pytest.mark.parametrize('victim', [0, 1])
@pytest.mark.parametrize('loss', [hosts.Host.kill, hosts.Host.lose])
def test_each_host_is_replaced(network, tmp_path, whole, victim, loss):
    run = replace_host(network, tmp_path, victim, loss)
    assert_ends_as(run, whole)
    assert run.began_at()[:2] == [0, 0] and set(run.began_at()[2:]) == {6}  # no more is lost than the steps since


@pytest.mark.slow
@pytest.mark.parametrize('victim', [0, 1])
def test_silence_and_a_new_address(network, tmp_path, whole, victim):
    "Nobody answers for the lost host: the survivor's agent learns of the new one, and ends the process that waits."
    assert_ends_as(replace_host(network, tmp_path, victim, hosts.Host.lose, spare=True), whole)


@pytest.mark.slow
def test_late_host(network, tmp_path, whole):
    front, first, second, _ = network
    run = new_run(front, tmp_path)
    run.begin(first)
    run.wait_until(lambda: 'Rendezvous' in str(run))
    run.begin(second)
    assert_ends_as(run, whole)
    assert run.began_at() == [0, 0]  # one process on each: the first has waited


@pytest.mark.slow
def test_host_that_never_comes(network, tmp_path):
    run = new_run(network[0], tmp_path, join_timeout=5)
    run.begin(network[1])
    assert run.exit_codes() == [1] and 'RendezvousTimeoutError' in str(run)


@pytest.mark.slow
def test_one_host_is_enough_and_a_second_helps(network, tmp_path, whole):
    "`--nnodes 1:2`: the first begins alone; when the second comes, both go on from the checkpoint."
    front, first, second, _ = network
    run = held_run(front, tmp_path, 4, n='1:2', last_call_timeout=1)
    run.begin(first)
    run.wait_for_step(4)
    run.begin(second)
    run.wait_until(lambda: len(run.began_at()) == 3)
    go_on(run)
    assert set(run.exit_codes()) == {0}, run
    assert run.began_at()[0] == 0 and min(run.began_at()[1:]) >= 4
    assert [step for step, _ in lines(run.out)] == [step for step, _ in lines(whole)]
    assert [loss for _, loss in lines(run.out)] == pytest.approx([loss for _, loss in lines(whole)], abs=1e-10, rel=0)


@pytest.mark.slow
def test_the_survivor_goes_on_alone(network, tmp_path, whole):
    front, first, second, _ = network
    run = held_run(front, tmp_path, 6, n='1:2', last_call_timeout=10)
    for host in (first, second): run.begin(host)
    run.wait_for_step(6)
    first.kill()
    del run.agents[first]
    go_on(run)
    assert run.exit_codes() == [0], run
    assert [step for step, _ in lines(run.out)] == [step for step, _ in lines(whole)]
    assert [loss for _, loss in lines(run.out)] == pytest.approx([loss for _, loss in lines(whole)], abs=1e-10, rel=0)


@pytest.mark.slow
def test_lost_store_ends_the_run_and_it_goes_on(network, tmp_path, whole):
    front, *both = network[:3]
    run = held_run(front, tmp_path, 6)
    for host in both: run.begin(host)
    run.wait_for_step(6)
    front.kill()
    assert run.exit_codes() == [1, 1] and 'The connection to the C10d store has failed' in str(run)
    go_on(run)
    run.store = serve_store(front)
    for host in both: run.begin(host)
    assert_ends_as(run, whole)


@pytest.mark.slow
def test_slow_disk(network, tmp_path, whole):
    "A host dies while a checkpoint is on its way to the disk."
    front, *both = network[:3]
    (tmp_path/'hold').touch()
    run = new_run(front, tmp_path, '--hold-disk', 4)
    for host in both: run.begin(host)
    run.wait_for_step(4)
    run.wait_until(lambda: list(run.out.glob('.step-*.tmp')))
    both[0].kill()
    assert [path.name for path in checkpoints.steps(run.out)][-1] == 'step-0000004'
    assert all(checkpoints.verify(path) is None for path in checkpoints.steps(run.out))
    go_on(run)
    run.begin(both[0])
    assert_ends_as(run, whole)


@pytest.fixture(scope='module')
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp('data')
    text = ''.join(' '.join('abcdefgh'[i % n] for i in range(n)) + '\n' for n in range(2, 9) for _ in range(40))
    for lang in ('en', 'de'): (folder/f'train.{lang}').write_text(text)
    return folder


def tnb_train(data, out, steps):
    settings = ('--preset tiny --batch-tokens 128 --grad-accum-steps 2 --max-len 32 --save-every 20 --device cpu '
                '--steps').split()
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

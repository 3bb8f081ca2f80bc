"""Runs the parts of tools/test one after another, counts test cases, and ends with "N passed, N failed".

Every case of a cmocka program, every pytest test, every fuzz target and every check of lint counts as one. What fails shows its output;
what passes is one line.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ElementTree
from concurrent.futures import ThreadPoolExecutor

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SOAK = os.environ.get('DARTER_SOAK') == '1'
CPUS = len(os.sched_getaffinity(0))
PYTHON = '/usr/bin/python3'
FUZZ_SECONDS = int(os.environ.get('DARTER_FUZZ_SECONDS', '7200' if SOAK else '60'))

# Python's bytecode: nothing is written into the tree, and the many processes of pytest read the tests, with their assertions taken apart, once.
BYTECODE = os.path.join(ROOT, 'build-bytecode')

# For one input: longer than the targets themselves wait for the server (whole_server.c), which tell more.
FUZZ_UNIT_SECONDS = 120

# The sanitizers want memory laid out where they expect it; newer kernels spread it wider than their older releases can stand.
STILL = ['setarch', '-R'] if shutil.which('setarch') and subprocess.run(['setarch', '-R', 'true'], capture_output=True).returncode == 0 else []

passed = failed = 0


def say(text):
    print(text, flush=True)


def record(name, good, bad, seconds, output=''):
    """Counts a suite and says how it went."""
    global passed, failed
    passed += good
    failed += bad
    if bad and output:
        say(output.rstrip())
    say('%-28s %5d passed, %d failed   %4.0f s' % (name, good, bad, seconds))


def run(command, env=None, timeout=None, **options):
    """(status, output) of a command; 124 if it took too long."""
    environment = dict(os.environ, PYTHONPYCACHEPREFIX=BYTECODE, PYTHONDONTWRITEBYTECODE='', **(env or {}))
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT, env=environment, start_new_session=True,
                                   **{'cwd': ROOT, **options})
        try:
            status = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            status = 124
        log.seek(0)
        output = log.read().decode('utf-8', 'replace')
    return status, output + ('\nended: it took longer than %d s\n' % timeout if status == 124 else '')


SYSROOT = os.path.join(ROOT, 'build-arm64-sysroot')
# The builds: each is configured in one way wherever it is used. (Compiler, options of meson.)
BUILDS = {
    'build': (None, ['-Dwerror=true', '-Dtests=true']),
    'build-clang': ('clang', ['-Dwerror=true', '-Dtests=true']),
    'build-bare': (None, ['-Dsystemd=disabled', '-Dio_uring=disabled', '-Dmemory=mimalloc', '-Dtests=false', '-Dwerror=true']),     # without what may be missing, and without arenas
    'build-asan': ('clang', ['-Db_sanitize=address,undefined', '-Db_lundef=false', '-Doptimization=1', '-Dwerror=true']),
    'build-tsan': ('clang', ['-Db_sanitize=thread', '-Db_lundef=false', '-Doptimization=2', '-Dwerror=true']),
    'build-fuzz': ('clang', ['-Dfuzz=true', '-Dtests=false', '-Db_sanitize=address,undefined', '-Db_lundef=false', '-Doptimization=1', '-Dwerror=true']),
    'build-arm64': (None, ['--cross-file', 'tools/cross/aarch64.ini', '--cross-file', os.path.join(SYSROOT, 'paths.ini'), '-Dwerror=true']),
}
builds_ahead = {}       # directory: a future of run_build()


def run_build(directory, nice=()):
    """(status, output). Status 3: it cannot be built on this machine, as the output says."""
    cc, options = BUILDS[directory]
    if directory == 'build-arm64':
        status, output = run([*nice, 'tools/cross/sysroot'])
        if status:
            return status, output
    return run([*nice, 'tools/build', directory, *options], env={'CC': cc} if cc else None)


def build_ahead(directories):
    """Builds while tests run that mostly wait."""
    pool = ThreadPoolExecutor(1)
    for directory in directories:
        builds_ahead[directory] = pool.submit(run_build, directory, ['nice', '-n', '19'])


def wait_for_builds():
    """Before tests that measure time."""
    for future in builds_ahead.values():
        future.result()


def build(directory):
    """Builds; True if that went well. A build that fails counts as one failure."""
    start = time.monotonic()
    status, output = builds_ahead.pop(directory).result() if directory in builds_ahead else run_build(directory)
    if status == 3:
        say('%s: left out: %s' % (directory, output.strip()))
    elif status:
        record(directory, 0, 1, time.monotonic() - start, output)
    return status == 0


def server_of(directory):
    """A copy of the server of a build: whoever builds meanwhile does not change what is being tested."""
    copy = os.path.join(ROOT, directory, 'darter-under-test')
    temporary = '%s.%d' % (copy, os.getpid())
    shutil.copy2(os.path.join(ROOT, directory, 'darter'), temporary)
    os.rename(temporary, copy)
    return copy


SUPPRESSIONS = os.path.join(ROOT, 'tests', 'sanitize')
ADDRESS_ENV = {
    'ASAN_OPTIONS': 'detect_leaks=1:detect_stack_use_after_return=1:allocator_may_return_null=1:exitcode=99',
    'UBSAN_OPTIONS': 'print_stacktrace=1:halt_on_error=1',
    'DARTER_TEST_LIGHT': '1', 'DARTER_TEST_SLOW': '4',
}
THREAD_ENV = {
    'TSAN_OPTIONS': 'second_deadlock_stack=1:history_size=4:exitcode=99:suppressions=' + os.path.join(SUPPRESSIONS, 'thread.supp'),
    'DARTER_TEST_LIGHT': '1', 'DARTER_TEST_SLOW': '8',
}


def pytest_suite(name, paths, env=None, workers=1, select=None, timeout=3000, prefix=(), share='load'):
    start = time.monotonic()
    with tempfile.NamedTemporaryFile(suffix='.xml') as report:
        command = [*prefix, PYTHON, '-m', 'pytest', '-q', '--tb=short', '-c', 'tests/pytest.ini', '--junitxml', report.name, '-o', 'junit_logging=no', *paths]
        if workers > 1:
            command += ['-n', str(workers), '--dist', share]
        if select:
            command += ['-m', select]
        status, output = run(command, env, timeout)
        try:
            suite = ElementTree.parse(report.name).getroot().find('testsuite')
            total, bad, errors, skipped = (int(suite.get(k)) for k in ('tests', 'failures', 'errors', 'skipped'))
        except (ElementTree.ParseError, AttributeError, TypeError):
            total, bad, errors, skipped = 0, 0, 1, 0
    if status == 5:     # nothing was selected
        return
    bad += errors
    if status and not bad:
        bad = 1
    record(name, max(total - bad - skipped, 0), bad, time.monotonic() - start, output)


def meson_suite(name, directory, env=None, prefix=(), slow=1):
    """The cmocka programs of a build directory, counted by test case."""
    start = time.monotonic()
    status, output = run([*prefix, 'meson', 'test', '-C', directory, '--no-rebuild', '--timeout-multiplier', str(slow), '--num-processes', str(CPUS)], env, 3000)
    good = bad = 0
    told = []
    try:
        with open(os.path.join(ROOT, directory, 'meson-logs', 'testlog.json')) as f:
            for line in f:
                one = json.loads(line)
                if one['result'] == 'EXPECTEDFAIL': # a deliberate fault was found
                    good += 1
                    continue
                text = (one.get('stdout') or '') + (one.get('stderr') or '')
                fine = len(re.findall(r'^\[       OK \]', text, re.M))
                wrong = len(set(re.findall(r'^\[  FAILED  \] (\S+)$', text, re.M)))
                if one['result'] != 'OK' and not wrong:
                    wrong = 1       # it crashed, took too long, or a sanitizer ended it
                good, bad = good + fine, bad + wrong
                if wrong:
                    told.append('--- %s: %s (status %s)\n%s' % (one['name'], one['result'], one.get('returncode'), text[-20000:]))
    except OSError:
        bad, told = 1, [output]
    if status and not bad:
        bad, told = 1, [output]
    record(name, good, bad, time.monotonic() - start, '\n'.join(told))


# The parts

def lint():
    """Every check is one test."""
    start = time.monotonic()
    status, output = run(['git', 'ls-files', '--cached', '--others', '--exclude-standard'])
    files = [f for f in output.split('\n') if f and os.path.isfile(os.path.join(ROOT, f))]
    c_files = [f for f in files if f.endswith(('.c', '.h'))]
    shell_files = [f for f in files if f == '.ci/run' or f.endswith('.sh') or
                   f.startswith('tools/') and first_line(f).startswith('#!') and first_line(f).endswith(('bash', '/sh'))]
    ill_laid = sorted(set(re.findall(r'^(\S+?):\d+:\d+: error', run(['clang-format', '--dry-run', '-Werror', *c_files])[1], re.M))) if c_files else []
    # Left out of shellcheck: names made by declare "$x_...", which it cannot follow (SC2154), and what it then takes for arrays (SC2178).
    results = [
        ('layout', len(ill_laid), 'tools/format would change: ' + ' '.join(ill_laid)),
        ('includes', *wrong_includes(c_files)),
        ('shell', *run(['shellcheck', '-x', '--severity=warning', '-e', 'SC2154,SC2178', *shell_files])),
        ('python', *run([PYTHON, '-B', '-c', 'import ast, sys\nfor f in sys.argv[1:]: ast.parse(open(f).read(), f)', *[f for f in files if f.endswith('.py')]])),
    ]
    bad = [(name, text) for name, status, text in results if status]
    record('lint', len(results) - len(bad), len(bad), time.monotonic() - start, '\n'.join('--- %s\n%s' % (n, t[-6000:]) for n, t in bad))
    for f in c_files:
        with open(os.path.join(ROOT, f)) as text:
            lines = sum(1 for _ in text)
        if lines > 900 and not f.startswith('tests/'):
            say('note: %s has %d lines; which second subject lives in it?' % (f, lines))
    start = time.monotonic()
    # The builds for the sanitizers have clang's warnings as errors too.
    for directory in ['build'] + ['build-clang'] * ('sanitize' not in sys.argv):
        if build(directory):
            record('warnings, ' + directory, 1, 0, time.monotonic() - start)
        start = time.monotonic()


def first_line(f):
    with open(os.path.join(ROOT, f), errors='replace') as text:
        return text.readline().rstrip()


# Who may include whom: io/ and shard/ know only themselves, server/ both, tools/ stand on io/.
MAY_INCLUDE = {'io': {'io'}, 'shard': {'shard'}, 'server': {'io', 'shard', 'server'}, 'tools': {'io', 'tools'}}


def wrong_includes(c_files):
    wrong = []
    for f in c_files:
        folder = f.split('/')[0]
        if folder not in MAY_INCLUDE:
            continue
        with open(os.path.join(ROOT, f), errors='replace') as text:
            for number, line in enumerate(text, 1):
                found = re.match(r'\s*#\s*include\s*"([^"]+)"', line)
                if not found:
                    continue
                if '/' not in found[1]:
                    wrong.append('%s:%d: include "%s/%s", with its folder' % (f, number, folder, found[1]))
                elif found[1].split('/')[0] not in MAY_INCLUDE[folder]:
                    wrong.append('%s:%d: %s/ must not include "%s"' % (f, number, folder, found[1]))
    return len(wrong), '\n'.join(wrong)


def unit():
    if build('build'):
        meson_suite('unit', 'build')


def simulate(name, directory, seeds, env=None, prefix=()):
    """Runs of the simulator, a part of the seeds on each CPU. Each part is one test."""
    start = time.monotonic()
    program = os.path.join(ROOT, directory, 'tests', 'sim', 'darter-sim')
    parts = ['%d-%d' % (1 + seeds * i // CPUS, seeds * (i + 1) // CPUS) for i in range(CPUS)]
    with ThreadPoolExecutor(CPUS) as pool:
        ends = list(pool.map(lambda part: run([*prefix, program, '--seeds', part], env, 20000 if SOAK else 1800), parts))
    bad = [output for status, output in ends if status]
    record(name, len(ends) - len(bad), len(bad), time.monotonic() - start, '\n'.join(bad))


def sim():
    """The scheduler in a world of its own: no seed may fail, and each deliberate fault must be found."""
    if not build('build'):
        return
    simulate('sim', 'build', 300000 if SOAK else 10000)
    start = time.monotonic()
    program = os.path.join(ROOT, 'build', 'tests', 'sim', 'darter-sim')
    faults = run([program, '--faults'])[1].splitlines()
    with ThreadPoolExecutor(CPUS) as pool:
        ends = list(pool.map(lambda fault: run([program, '--fault', fault.split()[0], '--seeds', '1-4000'], None, 600), faults))
    missed = [fault for fault, (status, output) in zip(faults, ends) if status != 1]
    record('sim, deliberate faults', len(faults) - len(missed), len(missed) or int(not faults), time.monotonic() - start, 'not found: ' + '; '.join(missed))


def integration():
    if build('build'):
        run_integration('integration', {'DARTER': server_of('build')})
    if build('build-bare'):
        env = {'DARTER': server_of('build-bare'), 'DARTER_TEST_IO': 'epoll'}
        pytest_suite('integration, bare', ['tests/integration/test_service.py', 'tests/integration/test_basics.py'], narrowed(env, '2'), workers=CPUS, select='not alone')


def clients():
    if build('build'):
        # A module's tests use one run of a client's program, so they stay together.
        pytest_suite('clients', ['tests/clients'], {'DARTER': server_of('build')}, workers=CPUS, share='loadscope')


def bench():
    """Every experiment of tools/bench, small: that it works, not what it finds."""
    if build('build'):
        pytest_suite('bench', ['tests/bench'], {'DARTER': server_of('build')}, workers=CPUS, timeout=600)


def run_integration(name, env):
    # Most tests wait for most of their time. Those that measure time or fill the machine run by themselves.
    pytest_suite(name, ['tests/integration'], env, workers=2 * CPUS, select='not alone')
    wait_for_builds()
    pytest_suite(name + ', alone', ['tests/integration'], env, select='alone')


def run_sanitized_integration(name, env):
    """Times mean little here, and the sizes are small: all together, except for what does nothing but measure. Most wait for most of their time here, too."""
    pytest_suite(name, ['tests/integration'], env, workers=2 * CPUS, select='not measures', prefix=STILL)


def oracle():
    if build('build'):
        env = {'DARTER': server_of('build')}
        if SOAK and 'DARTER_ORACLE_COMMANDS' not in os.environ:
            env['DARTER_ORACLE_COMMANDS'] = '1000000'
        pytest_suite('oracle', ['tests/oracle'], env, workers=CPUS, timeout=20000 if SOAK else 1800)


def sanitize():
    if build('build-asan'):
        env = dict(ADDRESS_ENV, DARTER=server_of('build-asan'))
        meson_suite('unit, address', 'build-asan', env, STILL, slow=5)
        simulate('sim, address', 'build-asan', 1000, env, STILL)
        run_sanitized_integration('integration, address', narrowed(env, '2'))
        pytest_suite('oracle, address', ['tests/oracle', '-k', 'random_commands'], narrowed(dict(env, DARTER_ORACLE_COMMANDS='5000'), '1,2'), workers=CPUS, prefix=STILL)
    if build('build-tsan'):
        env = dict(THREAD_ENV, DARTER=server_of('build-tsan'))
        meson_suite('unit, thread', 'build-tsan', env, STILL, slow=10)
        run_sanitized_integration('integration, thread', narrowed(env, '2,4'))


def package():
    pytest_suite('package', ['tests/integration/test_package.py', 'tests/integration/test_systemd.py'], {'DARTER_TEST_PACKAGE': '1'})


def narrowed(env, threads):
    return env if 'DARTER_TEST_THREADS' in os.environ else dict(env, DARTER_TEST_THREADS=threads)


def what_failed(output):
    """Of libFuzzer's output: no line of its progress, at the end the reason and the input, which is all that remains of a machine that is gone."""
    lines = [line for line in output.splitlines() if line.strip() and not re.match(r'#\d+\t|\tNEW_FUNC|INFO: |stat::|Dictionary', line)]
    reasons = [line for line in lines if line.startswith('fuzz: ') or re.match(r'SUMMARY: |.*\bERROR: |.*runtime error: |ALARM: |ended: ', line)]
    written = re.search(r'Test unit written to (\S+)', output)
    if written and os.path.exists(written[1]) and not any(line.startswith('fuzz: the input') for line in lines):
        with open(written[1], 'rb') as f:
            reasons.append('fuzz: the input, in hex: ' + f.read().hex())
    return '\n'.join([line[:2000] for line in lines if line not in reasons][-100:] + reasons)


def fuzz():
    if not build('build-fuzz'):
        return
    directory = os.path.join(ROOT, 'build-fuzz', 'tests', 'fuzz')
    targets = sorted(f for f in os.listdir(directory) if f.startswith('fuzz_') and os.access(os.path.join(directory, f), os.X_OK)
                     and os.path.isfile(os.path.join(directory, f))) if os.path.isdir(directory) else []

    def one(target):
        start = time.monotonic()
        work = os.path.join(directory, 'found', target)
        os.makedirs(work, exist_ok=True)
        name = target[len('fuzz_'):]
        corpus = os.path.join(ROOT, 'tests', 'fuzz', 'corpus', name)
        dictionary = os.path.join(ROOT, 'tests', 'fuzz', name + '.dict')
        generator = os.path.join(ROOT, 'tests', 'fuzz', 'seeds_%s.py' % name)
        # Of a whole server leaks are looked for where it ends in order, below: this one is killed in the middle.
        leaks = int(target not in ('fuzz_commands', 'fuzz_protocol'))
        command = [*STILL, os.path.join(directory, target), '-max_total_time=%d' % FUZZ_SECONDS, '-timeout=%d' % FUZZ_UNIT_SECONDS, '-detect_leaks=%d' % leaks, '-rss_limit_mb=3000', '-print_final_stats=1',
                   '-artifact_prefix=' + work + '/', *([] if SOAK else ['-seed=1']), work + '-corpus']
        os.makedirs(work + '-corpus', exist_ok=True)
        if os.path.isfile(dictionary):
            command.append('-dict=' + dictionary)
        if os.path.isdir(corpus):
            command.append(corpus)
        if os.path.isfile(generator):
            status, output = run([PYTHON, generator, work + '-seeds'])
            if status:
                return target, status, output, time.monotonic() - start
            command.append(work + '-seeds')
        env = dict(ADDRESS_ENV, ASAN_OPTIONS=ADDRESS_ENV['ASAN_OPTIONS'].replace('detect_leaks=1', 'detect_leaks=%d' % leaks))
        status, output = run(command, env, FUZZ_SECONDS + 2 * FUZZ_UNIT_SECONDS + 60)
        return target, status, what_failed(output), time.monotonic() - start

    env = dict(ADDRESS_ENV, DARTER=server_of('build-fuzz'), DARTER_FUZZ_SECONDS=str(FUZZ_SECONDS))
    with ThreadPoolExecutor(len(targets) or 1) as pool:
        running = [pool.submit(one, target) for target in targets]
        pytest_suite('fuzz, whole server', ['tests/fuzz'], env, timeout=FUZZ_SECONDS * 4 + 300, prefix=STILL)
        for future in running:
            target, status, output, seconds = future.result()
            record(target, int(not status), int(bool(status)), seconds, output)


def cross():
    if os.uname().machine != 'x86_64':
        say('cross: left out, since this machine is no x86-64')
        return
    if build('build-arm64'):
        meson_suite('unit, arm64', 'build-arm64', {'DARTER_TEST_LIGHT': '1'}, slow=10)


def main():
    start = time.monotonic()
    parts = sys.argv[1:]
    if 'integration' in parts and build('build'):
        build_ahead([d for part, directories in (('sanitize', ['build-asan', 'build-tsan']), ('fuzz', ['build-fuzz']), ('cross', ['build-arm64']))
                     if part in parts and (part != 'cross' or os.uname().machine == 'x86_64') for d in directories])
    for part in parts:
        {'lint': lint, 'unit': unit, 'sim': sim, 'integration': integration, 'clients': clients, 'bench': bench, 'oracle': oracle, 'sanitize': sanitize, 'fuzz': fuzz, 'cross': cross, 'package': package}[part]()
    say('%.1f minutes' % ((time.monotonic() - start) / 60))
    say('%d passed, %d failed' % (passed, failed))
    sys.exit(failed > 0 or passed == 0)


main()

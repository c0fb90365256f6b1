//! Templates and children that do not do their part, and what they can reach.
//!
//! A template runs the code of the tenant whose containers it forks, so the runtime relies on neither: a child that is
//! not as configured is killed, and the program is executed. docs/templates.md has the threat model.

use super::{LIBRARY, PROGRAM, bundle, children, create, lacking, other};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::container::Container;
use dayfly_tests::leak::Host;
use dayfly_tests::runner::Case;
use dayfly_tests::view::View;
use dayfly_tests::wait;
use serde_json::{Value, json};
use std::fs;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(templates_that_fail).needs(lacking).unlike_runc(),
    case!(a_template_that_does_not_answer).needs(lacking).unlike_runc(),
    case!(children_that_are_not_as_configured).needs(lacking).unlike_runc(),
    case!(more_than_was_asked_for).needs(lacking).unlike_runc().alone(),
    case!(the_cgroup_leads_nowhere).needs(lacking).unlike_runc(),
    case!(the_stand_in_is_out_of_reach).needs(lacking).unlike_runc(),
    case!(a_child_sees_only_itself).needs(lacking).unlike_runc(),
];

/// Returns a template whose library this Python code changes.
fn changed<'a>(bed: &'a Bed, change: &str) -> Container<'a> {
    let bundle = bundle(bed, PROGRAM);
    let library = format!("{LIBRARY}\n\nif _VARIABLE in os.environ:\n    {change}\n");
    fs::write(bundle.rootfs().join("dayfly_template.py"), library).expect("write library");
    let c = bundle.make();
    create(&c, &[]).ok();
    c
}

/// Runs a container by a template, with an ordinary user and a filter. Returns its output, and the log.
#[track_caller]
fn run(template: &Container<'_>, code: &str) -> (String, String) {
    let c = other(template, |config: &mut Value| {
        config["process"]["args"] = json!(["/usr/bin/python3", "-B", "/app.py", code]);
        config["process"]["user"] = json!({ "uid": 1000, "gid": 1000 });
        config["process"]["noNewPrivileges"] = json!(true);
        config["linux"]["cgroupsPath"] = json!("");
        config["linux"]["seccomp"] = json!({ "defaultAction": "SCMP_ACT_ALLOW",
            "syscalls": [{ "names": ["getppid"], "action": "SCMP_ACT_ERRNO" }] });
    });
    let outcome = c.run_with(&["--template", &template.id]).ok();
    c.assert_gone("a program of a hostile template");
    (outcome.stdout.clone(), outcome.log())
}

/// Each row changes the library, and makes the program be executed for this reason.
#[track_caller]
fn executed_for(bed: &Bed, rows: &[(&str, &str)]) {
    for (change, reason) in rows {
        let template = changed(bed, change);
        let (output, log) = run(&template, "print(os.getpid())");
        assert_eq!(output, "1\n", "{change}: {log}");
        assert!(log.contains(reason), "{change}: {log}");
        let reaper = template.state()["pid"].as_i64().expect("pid") as i32;
        wait::until_true(change, || children(reaper).len() <= 1);
        template.delete_force().ok();
    }
}

fn templates_that_fail(bed: &Bed) {
    executed_for(
        bed,
        &[
            ("_Template._start = lambda self, request: os._exit(0)", "ended"),
            (
                "_Template._start = lambda self, request: request.connection.send(b'XYZ') and False",
                "sent an unknown answer",
            ),
            (
                "_Template._start = lambda self, request: _send_failure(request.connection, \
                 _Failure(errno.ENOMEM, 'fork')) or False",
                "refused: fork: cannot allocate memory",
            ),
            ("_Child._begin_session = lambda self: os._exit(1)", "is executed instead"),
            ("_Child._take = lambda self: 1 / 0", "refused: ZeroDivisionError"),
            // No errno, and an escape sequence for the terminal.
            (
                "_Template._start = lambda self, request: _send_failure(request.connection, \
                 _Failure(-70000, 'a\\x1b[2Jb\\nc')) or False",
                "refused: a?[2Jb?c: input/output error",
            ),
            // Another process than the sender: the container's init.
            (
                "_Child._send = staticmethod(lambda message, connection: connection.sendmsg([message], \
                 [(socket.SOL_SOCKET, 2, struct.pack('=3i', 1, 0, 0))]))",
                "has an unknown child",
            ),
            ("_Child._confine = lambda self: self._send(b'B', self.connection)", "unknown answer"),
        ],
    );
}

fn a_template_that_does_not_answer(bed: &Bed) {
    executed_for(
        bed,
        &[(
            "_Template._start = lambda self, request: time.sleep(1000)",
            "did not answer within 5 s",
        )],
    );
}

fn children_that_are_not_as_configured(bed: &Bed) {
    executed_for(
        bed,
        &[
            ("_Child._take_capabilities = lambda self: None", "is executed instead"),
            (
                "_System.capset = lambda self, *sets: None",
                // A user other than root keeps them with PR_SET_KEEPCAPS.
                "CapPrm differs",
            ),
            ("_Child._limit_capabilities = lambda self: None", "CapBnd differs"),
            ("_Child._change_user = lambda self: None", "Uid differs"),
            ("_System.load_filter = lambda self, *filter: None", "its seccomp filter differs"),
            ("_Child._join = lambda self: None", "its mnt namespace differs"),
            (
                "own = _System.setns; _System.setns = lambda self, fd, kind: kind == 0x40000000 or \
                 own(self, fd, kind)",
                "its net namespace differs",
            ),
            (
                "own = _System.setns; _System.setns = lambda self, fd, kind: kind == _CLONE_NEWPID or \
                 own(self, fd, kind)",
                "its pid namespace differs",
            ),
            (
                "_Child._enter_cgroups = staticmethod(lambda files: None); _System.clone_into = \
                 lambda self, cgroup: None",
                "its cgroup differs",
            ),
        ],
    );
}

/// Answers beyond the protocol change nothing and leave nothing.
fn more_than_was_asked_for(bed: &Bed) {
    // The first start fills the host's cache.
    let first = changed(bed, "pass");
    run(&first, "");
    first.delete_force().ok();
    let host = Host::look();
    for change in [
        // An answer with descriptors, which Linux 6.16 refuses to deliver.
        "def send(message, connection):
        try:
            socket.send_fds(connection, [message], [0, 1, 2] * 20, socket.MSG_NOSIGNAL)
        except PermissionError:
            connection.send(message)
    _Child._send = staticmethod(send)",
        // Another process that goes on in the container's PID namespace.
        "def confine(self, own=_Child._confine):
        if not self.template.is_original():
            os.fork() or time.sleep(1000)
        own(self)
    _Child._confine = confine",
    ] {
        let template = changed(bed, change);
        let (output, log) = run(&template, "print(os.getpid() != 1)");
        assert_eq!(output, "True\n", "{change}: {log}");
        wait::until_true(change, || children(template.pid()).len() <= 1);
        template.delete_force().ok();
    }
    wait::until_none("nothing is left", || host.changes());
}

/// The descriptor of the cgroup into which the template forks leads to nothing else on the host, and cannot be written
/// through.
fn the_cgroup_leads_nowhere(bed: &Bed) {
    let attack = "own = _Template._start
    def attack(self, request):
        def attempt(*arguments, **keywords):
            try:
                return os.open(*arguments, **keywords)
            except OSError as error:
                return -error.errno
        directory, said = request.cgroup, []
        if directory is not None:
            up = attempt('../../../../../..', os.O_PATH, dir_fd=directory)
            here = os.fstat(directory)
            said = [attempt('etc/passwd', os.O_RDONLY, dir_fd=up), os.fstat(up).st_ino == here.st_ino,
                    attempt('cgroup.procs', os.O_WRONLY, dir_fd=directory)]
        for file in request.procs:
            said.append(attempt('..', os.O_PATH, dir_fd=file))
        open('/tmp/said', 'w').write(repr(said))
        return own(self, request)
    _Template._start = attack";
    let template = changed(bed, attack);
    run(&template, "");
    let said = fs::read_to_string(template.bundle.join("rootfs/tmp/said")).expect("attack");
    let words: Vec<&str> = said.trim_matches(['[', ']']).split(", ").collect();
    // In the v1 view, cgroup v2 is not mounted.
    let (directory, files) = words.split_at(if bed.view == View::V1 { 0 } else { 3 });
    // ENOENT, EROFS; ENOTDIR of each file.
    assert!(directory.is_empty() || directory == ["-2", "True", "-30"], "{said}");
    assert!(files.iter().all(|errno| *errno == "-20"), "{said}");
}

/// The stand-in of a container is visible to its template from its creation on, but the template can neither trace it nor
/// see its memory, descriptors, environment or program: neither while it is init, nor later.
fn the_stand_in_is_out_of_reach(bed: &Bed) {
    let attack = "own = _Template._return
    def attack(self):
        own(self)
        said, title, end = set(), '', time.monotonic() + 10
        while 'stand-in' not in title and time.monotonic() < end:
            for name in filter(str.isdigit, os.listdir('/proc')):
                if int(name) in (1, os.getpid()) or open('/proc/%s/stat' % name).read().split()[3] != '0':
                    continue
                title = open('/proc/%s/cmdline' % name).read()
                for file in ('mem', 'environ', 'maps', 'auxv'):
                    try:
                        open('/proc/%s/%s' % (name, file), 'rb').read(1)
                        said.add((file, 0))
                    except OSError as error:
                        said.add((file, error.errno))
                for link in ('exe', 'cwd', 'root', 'fd/0'):
                    try:
                        os.readlink('/proc/%s/%s' % (name, link))
                        said.add((link, 0))
                    except OSError as error:
                        said.add((link, error.errno))
                said.add(('ptrace', self.system._syscall(101, 16, int(name), 0, 0, 0)))
        said.add(('stand-in', 1 if 'stand-in' in title else 0))
        with open('/tmp/new', 'w') as file:
            file.write(json.dumps(sorted(said)))
        os.rename('/tmp/new', '/tmp/said')
    _Template._return = attack";
    let template = changed(bed, attack);
    run(&template, "import time; time.sleep(0.5)");
    let said = template.bundle.join("rootfs/tmp/said");
    let said = wait::until("the attack", || fs::read_to_string(&said).ok());
    let found: Vec<(String, i64)> = serde_json::from_str(&said).expect("JSON");
    // EACCES or EPERM for each of four files and four links, −1 of ptrace(2); and the last look saw the stand-in.
    assert!(found.iter().all(|(_, answer)| [1, 13, -1].contains(answer)), "{said}");
    for what in
        ["mem", "environ", "maps", "auxv", "exe", "cwd", "root", "fd/0", "ptrace", "stand-in"]
    {
        assert!(found.iter().any(|(name, _)| name == what), "{what}: {said}");
    }
}

/// A child sees neither its template nor other children, and holds none of their descriptors.
fn a_child_sees_only_itself(bed: &Bed) {
    let template = changed(bed, "pass");
    let code = "print(sorted(filter(str.isdigit, os.listdir('/proc'))))
print(sorted(map(int, os.listdir('/proc/self/fd')))[:-1])
for file in ('exe', 'fd/0', 'cwd', 'mem', 'environ'):
    try:
        os.open('/proc/1/' + file, os.O_RDONLY); print(file)
    except OSError as error:
        print(error.errno)
print(open('/proc/1/cmdline').read().rstrip('\\0'))
for pid in (1, -1):
    try:
        os.kill(pid, 0); print('killed')
    except OSError as error:
        print(error.errno)";
    let (output, log) = run(&template, code);
    let lines: Vec<&str> = output.lines().collect();
    assert_eq!(lines[..2], ["['1', '2']", "[0, 1, 2]"], "{output}{log}");
    // Nothing of the command's own arguments, which name files of the host.
    assert_eq!(lines[7], "dayfly: stand-in of a forked program", "{output}{log}");
    assert!(lines[2..7].iter().all(|line| ["1", "13"].contains(line)), "{output}{log}");
}

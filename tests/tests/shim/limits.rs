//! Many requests at once, and clients that do not read: the shim uses little memory and CPU time, and loses nothing.

use super::{Task, is_missing};
use dayfly_tests::bed::Bed;
use dayfly_tests::runner::Case;
use dayfly_tests::shim::Pipes;
use dayfly_tests::{case, leak};
use proto::messages::events::topic;
use proto::messages::task::{Method, StartRequest, StateRequest, StateResponse, WaitRequest};
use std::fs;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] = &[
    case!(thousand_execs).unlike_runc().alone(),
    case!(output_that_nobody_reads).unlike_runc(),
    case!(frozen_containerd).unlike_runc(),
    case!(nothing_is_kept).unlike_runc().alone(),
    case!(secrets_of_execs).unlike_runc(),
];

/// Returns the field `name` of a file in /proc/PID, in kB.
fn kilobytes(pid: u32, file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(format!("/proc/{pid}/{file}")).expect("read");
    let line = text.lines().find(|line| line.starts_with(name)).expect("field");
    line.split_whitespace().nth(1).and_then(|number| number.parse().ok()).expect("number")
}

fn private(pid: u32) -> u64 {
    kilobytes(pid, "smaps_rollup", "Private_Dirty:")
}

/// Returns the CPU time of a process, in ticks of 10 ms.
fn ticks(pid: u32) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).expect("stat");
    let (_, fields) = stat.rsplit_once(')').expect("name");
    let times = fields.split_whitespace().skip(11).take(2);
    times.map(|field| field.parse::<u64>().expect("number")).sum()
}

/// A thousand execs need more descriptors than the shim's limit: the shim raises its own limit, and its containers get
/// the original one.
fn thousand_execs(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let script = "ulimit -Sn 256; exec \"$@\"";
    let wrapper = ["sh", "-c", script, "sh"];
    let container = bed.bundle().unset("/process/rlimits").args(&["sleep", "1000"]).make();
    let task = Task::created_by(&wrapper, container, Vec::new());
    task.start("");
    let pipes = Pipes::new(&task.container, "limit");
    let out = pipes.reader("stdout");
    task.exec("limit", "ulimit -Sn", Some(&pipes));
    task.start("limit");
    assert_eq!(out.join().expect("stdout"), b"256\n");

    let pipes = Pipes::new(&task.container, "many");
    let reader = pipes.reader("stdout");
    // Without this writer, the reader would see the end of the file when one program exits before the next one starts.
    let writer = pipes.writer("stdout");
    let names: Vec<String> = (0..1000).map(|number| format!("e{number}")).collect();
    for name in &names {
        task.exec(name, "echo x; exit 5", Some(&pipes));
    }
    let request = |name: &String| StartRequest { id: task.id(), exec_id: name.clone() };
    let starts: Vec<u32> =
        names.iter().map(|name| task.shim.send(Method::Start, &request(name))).collect();
    let since = Instant::now();
    for start in starts {
        let answer = task.shim.answer_within(start, Duration::from_secs(120));
        answer.expect("an answer").expect("start");
    }
    println!("1000 starts: {:?}", since.elapsed());
    for name in &names {
        assert_eq!(task.wait(name), 5);
        task.delete(name);
    }
    drop(writer);
    let said = reader.join().expect("stdout");
    assert_eq!(said.iter().filter(|byte| **byte == b'x').count(), 1000);
    println!(
        "peak {} kB, private {} kB",
        kilobytes(task.shim.pid(), "status", "VmHWM:"),
        private(task.shim.pid())
    );
    task.finish();
}

/// If nobody reads the output, the program blocks and the shim uses no CPU time; both can still be ended.
fn output_that_nobody_reads(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().args(&["yes"]).make();
    let pipes = Pipes::new(&container, "init");
    let task = Task::started(container, Some(&pipes));
    let pid = task.shim.pid();
    let wait = WaitRequest { id: task.id(), ..WaitRequest::default() };
    let wait = task.shim.send(Method::Wait, &wait);
    // Waits until the pipe and the FIFO are full, so that the program uses no more CPU time.
    let full = || {
        let before = ticks(task.state().pid);
        assert!(task.shim.answer_within(wait, Duration::from_millis(50)).is_none());
        ticks(task.state().pid) == before
    };
    dayfly_tests::wait::until_true("the program to wait", full);
    let before = ticks(pid);
    assert!(task.shim.answer_within(wait, Duration::from_millis(500)).is_none());
    assert!(ticks(pid) - before <= 2, "{} ticks of idleness", ticks(pid) - before);
    let since = Instant::now();
    task.kill(9);
    assert_eq!(task.wait(""), 137);
    assert!(since.elapsed() < Duration::from_secs(5), "{:?}", since.elapsed());
    task.delete("");
    assert!(since.elapsed() < Duration::from_secs(20), "{:?}", since.elapsed());
    task.shut_down();
}

/// A frozen containerd neither accepts events nor reads answers. Nothing is lost, and the shim uses little memory.
fn frozen_containerd(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    task.shim.events.topics_to(topic::TASK_START);
    let pid = task.shim.pid();
    let frozen = std::sync::Arc::clone(&task.shim.events.frozen);
    let guard = frozen.lock().expect("lock");
    for number in 0..40 {
        let name = format!("e{number}");
        task.exec(&name, "exit 5", None);
        task.start(&name);
        assert_eq!(task.wait(&name), 5);
        task.delete(&name);
    }
    let request = StateRequest { id: task.id(), ..StateRequest::default() };
    let silent = dayfly_tests::shim::Line::to(&task.shim.address);
    let calls = silent.send_all(Method::State, &request, 30_000);
    let memory = private(pid);
    println!("private memory: {memory} kB");
    assert!(memory < 12 << 10, "{memory} kB");
    // The shim serves other connections meanwhile.
    assert_eq!(task.shim.pid(), pid);
    drop(guard);
    let mut exits = 0;
    let mut started = 0;
    while exits < 40 {
        match task.shim.events.next().topic.as_str() {
            topic::TASK_EXIT => exits += 1,
            topic::TASK_EXEC_STARTED => started += 1,
            _ => {}
        }
    }
    assert_eq!(started, 40);
    for call in calls {
        let answer = silent.answer(call).expect("state");
        assert!(StateResponse::decode(&answer).expect("answer").pid > 0);
    }
    task.finish();
}

fn nothing_is_kept(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let task = Task::started(bed.bundle().args(&["sleep", "1000"]).make(), None);
    let pid = task.shim.pid();
    let rounds: u32 =
        std::env::var("DAYFLY_EXECS").map_or(1500, |text| text.parse().expect("number"));
    let run = |from: u32, to: u32| {
        for number in from..to {
            let name = format!("e{number}");
            task.exec(&name, "exit 5", None);
            task.start(&name);
            assert_eq!(task.wait(&name), 5);
            task.delete(&name);
        }
    };
    let open = || leak::descriptors(pid as i32).len();
    run(0, 50);
    let (memory, descriptors) = (private(pid), open());
    run(50, 50 + rounds);
    let after = private(pid);
    println!("private memory: {memory} kB, after {rounds} more {after} kB");
    // The heap keeps the pages of its peak, which depends on how fast events are accepted: 40 to 90 kB, after 300
    // execs as well as after 3000. If the shim kept a hundred bytes for each exec, the difference would be larger.
    assert!(after <= memory + 128, "{memory} kB, then {after} kB");
    dayfly_tests::wait::until_true("descriptors to be as before", || open() <= descriptors);
    task.finish();
}

/// Returns the number of occurrences of `text` in a process's memory.
fn occurrences(pid: u32, text: &str) -> usize {
    let maps = fs::read_to_string(format!("/proc/{pid}/maps")).expect("maps");
    let memory = fs::File::open(format!("/proc/{pid}/mem")).expect("mem");
    let mut found = 0;
    for line in maps.lines().filter(|line| line.contains(" rw")) {
        let (range, _) = line.split_once(' ').expect("range");
        let (from, to) = range.split_once('-').expect("range");
        let number = |text| u64::from_str_radix(text, 16).expect("number");
        let mut bytes = vec![0; (number(to) - number(from)) as usize];
        if memory.read_at(&mut bytes, number(from)).is_ok() {
            found += bytes.windows(text.len()).filter(|window| *window == text.as_bytes()).count();
        }
    }
    found
}

/// The environment of a container or of a started exec must not stay in the shim's memory, nor in the memory of workers
/// that the shim starts for other processes.
fn secrets_of_execs(bed: &Bed) {
    if is_missing(bed) {
        return;
    }
    let container = bed.bundle().sh("SECRET=of-the-container exec sleep 1000").make();
    let task = Task::started(container, None);
    let pid = task.shim.pid();
    task.exec("e", "SECRET=of-the-exec exec sleep 1000", None);
    // The environment is kept until the start, which shows that the search works.
    assert!(occurrences(pid, "of-the-exec") > 0);
    task.start("e");
    for secret in ["of-the-exec", "of-the-container"] {
        assert_eq!(occurrences(pid, secret), 0, "{secret}");
    }
    task.finish();
}

//! Tests of FIFOs and files, whose data passes through pipes.

use std::os::unix::fs::MetadataExt;
use std::thread;

use super::*;

#[test]
fn a_mebibyte_arrives_intact() {
    let (mut rig, ends) = Rig::with_fifos();
    let data = noise(1 << 20);
    let (path, sent) = (rig.path("out"), data.clone());
    let taker = thread::spawn(move || fs::read(path).unwrap());
    let mut stdout = File::from(ends.stdout.unwrap());
    let giver = thread::spawn(move || {
        for piece in sent.chunks(7001) {
            stdout.write_all(piece).unwrap();
        }
    });
    drop(ends.stderr);
    // Once a reader has opened the FIFO, it gets all data, and then an end of file.
    rig.drain();
    rig.run_until(|rig| rig.streams.unread.iter().flatten().count() == 1);
    giver.join().unwrap();
    assert!(taker.join().unwrap() == data);
}

#[test]
fn both_outputs_end_by_themselves() {
    let (mut rig, ends) = Rig::with_fifos();
    let (out, err) = (reader(rig.path("out")), reader(rig.path("err")));
    drop(ends.stdout);
    rig.run_until(|rig| rig.streams.carriers[1].is_none());
    assert_eq!(read_now(&out), (vec![], true));
    assert_eq!(read_now(&err), (vec![], false));
    File::from(ends.stderr.unwrap()).write_all(b"last").unwrap();
    assert!(!rig.streams.is_drained());
    rig.drain();
    assert_eq!(read_now(&err), (b"last".to_vec(), true));
}

#[test]
fn a_reader_may_come_after_the_end() {
    let (mut rig, ends) = Rig::with_fifos();
    File::from(ends.stdout.unwrap()).write_all(b"hello").unwrap();
    drop(ends.stderr);
    rig.streams.ended(&rig.poller);
    assert!(rig.streams.is_drained());
    rig.run_out();
    let out = reader(rig.path("out"));
    rig.run_until(|rig| rig.streams.unread[0].is_none());
    assert_eq!(read_now(&out), (b"hello".to_vec(), true));
}

/// A worker that has just started has copies of all descriptors, but must not count as a reader.
#[test]
fn a_copy_of_the_shim_is_no_reader() {
    let (mut rig, ends) = Rig::with_fifos();
    let path = rig.path("out");
    let copies: Vec<File> = fs::read_dir("/proc/self/fd")
        .unwrap()
        .filter_map(|entry| {
            let fd = entry.unwrap().path();
            let number = fd.file_name()?.to_str()?.to_owned();
            let info = fs::read_to_string(format!("/proc/self/fdinfo/{number}")).ok()?;
            let flags =
                info.lines().find_map(|line| line.strip_prefix("flags:"))?.trim().to_owned();
            let is_reader =
                flags.ends_with('0') && fs::read_link(&fd).is_ok_and(|link| link == *path);
            is_reader.then(|| reader(path.clone()))
        })
        .collect();
    File::from(ends.stdout.unwrap()).write_all(b"hello").unwrap();
    rig.run_until(|rig| rig.streams.carriers[1].is_none());
    assert!(rig.streams.unread[0].is_some(), "closed unread, with {} copies", copies.len());
    drop(copies);
    let out = reader(path);
    rig.run_until(|rig| rig.streams.unread[0].is_none());
    assert_eq!(read_now(&out), (b"hello".to_vec(), true));
}

#[test]
fn a_reader_may_go_and_come_back() {
    let (mut rig, ends) = Rig::with_fifos();
    let mut stdout = impatient(ends.stdout);
    let data = noise(300_000);
    let mut written = rig.fill(&mut stdout, &data);
    let mut seen = Vec::new();
    while seen.len() < data.len() {
        // The FIFO is reopened for each read.
        let out = reader(rig.path("out"));
        let mut piece = [0; 10_000];
        let read = (&out).read(&mut piece).unwrap();
        seen.extend_from_slice(&piece[..read]);
        drop(out);
        rig.run_out();
        written += rig.fill(&mut stdout, &data[written..]);
    }
    assert!(seen == data);
}

#[test]
fn what_nobody_reads_stops_the_program_and_costs_nothing() {
    let (mut rig, ends) = Rig::with_fifos();
    let mut stdout = impatient(ends.stdout);
    let data = noise(4 << 20);
    let written = rig.fill(&mut stdout, &data);
    // The maximum is the capacity of a pipe and a FIFO, each 64 KiB.
    assert!(written <= 2 << 16, "{written}");
    assert!(rig.events < 100, "{}", rig.events);
    assert!(!rig.turn(&NOW));
    // After the program's exit, the loop still waits without events.
    drop((stdout, ends.stderr));
    rig.streams.ended(&rig.poller);
    rig.run_out();
    assert!(!rig.turn(&NOW));
    assert!(!rig.streams.is_drained());
    // Finally, a reader opens the FIFO.
    let out = reader(rig.path("out"));
    let seen = rig.read_all(&out);
    assert!(rig.streams.is_drained());
    assert!(seen == data[..written]);
}

#[test]
fn single_bytes_fill_a_fifo_too() {
    let (mut rig, ends) = Rig::with_fifos();
    let mut stdout = impatient(ends.stdout);
    let data = noise(100_000);
    let out = reader(rig.path("out"));
    let (mut seen, mut sent) = (Vec::new(), 0);
    for _ in 0..200 {
        stdout.write_all(&data[sent..=sent]).unwrap();
        sent += 1;
        rig.run_out();
    }
    assert!(rig.events < 1000);
    while seen.len() < sent {
        seen.extend(read_now(&out).0);
        rig.run_out();
    }
    assert!(seen == data[..sent]);
}

#[test]
fn stdin_ends_by_close_io_only() {
    let (mut rig, ends) = Rig::with_fifos();
    let stdin = impatient(ends.stdin);
    for word in ["first", "second"] {
        writer(rig.path("in")).write_all(word.as_bytes()).unwrap();
        rig.run_out();
        assert_eq!(read_now(&stdin), (word.into(), false));
    }
    // A client that is still writing is read to the end.
    let mut client = writer(rig.path("in"));
    rig.streams.close_stdin(&rig.poller);
    rig.run_out();
    client.write_all(b"third").unwrap();
    rig.run_out();
    assert_eq!(read_now(&stdin), (b"third".to_vec(), false));
    drop(client);
    rig.run_until(|rig| rig.streams.carriers[0].is_none());
    assert_eq!(read_now(&stdin), (vec![], true));
}

#[test]
fn stdin_that_is_not_read_waits() {
    let (mut rig, ends) = Rig::with_fifos();
    let stdin = impatient(ends.stdin);
    let mut client = writer(rig.path("in"));
    let data = noise(4 << 20);
    let written = rig.fill(&mut client, &data);
    assert!(written <= 2 << 16, "{written}");
    assert!(rig.events < 100, "{}", rig.events);
    // After the last client has closed the FIFO, there are no more events.
    drop(client);
    rig.streams.close_stdin(&rig.poller);
    rig.run_out();
    let seen = rig.read_all(&stdin);
    assert!(seen == data[..written]);
}

#[test]
fn a_program_that_closes_stdin_is_told_to_the_client() {
    let (mut rig, ends) = Rig::with_fifos();
    let mut client = writer(rig.path("in"));
    drop(ends.stdin);
    client.write_all(b"x").unwrap();
    rig.run_until(|rig| rig.streams.carriers[0].is_none());
    assert_eq!(client.write(b"y").unwrap_err().kind(), ErrorKind::BrokenPipe);
}

#[test]
fn a_full_stdin_is_given_up_with_its_program() {
    let (mut rig, ends) = Rig::with_fifos();
    let stdin = impatient(ends.stdin);
    let mut client = writer(rig.path("in"));
    rig.fill(&mut client, &noise(1 << 20));
    drop(stdin);
    rig.run_until(|rig| rig.streams.carriers[0].is_none());
    rig.run_out();
}

#[test]
fn children_left_behind_are_heard() {
    let (mut rig, ends) = Rig::with_fifos();
    let out = reader(rig.path("out"));
    drop(ends.stderr);
    let mut child = File::from(ends.stdout.unwrap());
    child.write_all(b"parent ").unwrap();
    rig.streams.ended(&rig.poller);
    assert!(!rig.streams.is_drained());
    assert_eq!(read_now(&out), (b"parent ".to_vec(), false));
    child.write_all(b"child").unwrap();
    drop(child);
    rig.drain();
    assert_eq!(read_now(&out), (b"child".to_vec(), true));
}

#[test]
fn giving_up_closes_all() {
    let (mut rig, ends) = Rig::with_fifos();
    let out = reader(rig.path("out"));
    let mut stdout = impatient(ends.stdout);
    rig.fill(&mut stdout, &noise(1 << 20));
    rig.streams.abandon(&rig.poller);
    assert!(rig.streams.is_drained());
    assert_eq!(stdout.write(b"x").unwrap_err().kind(), ErrorKind::BrokenPipe);
    assert!(read_now(&out).1);
    assert!(!rig.turn(&NOW));
}

#[test]
fn pipes_belong_to_whom_they_are_for() {
    let (_rig, ends) = Rig::with_fifos();
    for end in [ends.stdin, ends.stdout, ends.stderr] {
        let metadata = rustix::fs::fstat(end.unwrap()).unwrap();
        assert_eq!((metadata.st_uid, metadata.st_gid), (1000, 1001));
    }
}

#[test]
fn what_is_not_asked_for_is_not_made() {
    let mut rig = Rig::new();
    let out = rig.path("out");
    let ends = rig.open(["", &out, ""], false);
    assert!(ends.stdin.is_none() && ends.stdout.is_some() && ends.stderr.is_none());
    let ends = rig.open(["", "", ""], false);
    assert!(ends.stdin.is_none() && ends.stdout.is_none() && ends.stderr.is_none());
    assert!(rig.streams.is_drained());
}

#[test]
fn files_are_appended_to() {
    let mut rig = Rig::new();
    let path = rig.path("made/on the/way/log");
    let uri = format!("file://{}", path.replace(' ', "%20"));
    let data = noise(100_000);
    for expected in [0, data.len()] {
        assert_eq!(fs::metadata(&path).map_or(0, |log| log.len()), expected as u64);
        let ends = rig.open(["", &uri, &uri], false);
        let mut stdout = File::from(ends.stdout.unwrap());
        let mut stderr = File::from(ends.stderr.unwrap());
        let sent = data.clone();
        let giver = thread::spawn(move || {
            let (first, second) = sent.split_at(sent.len() - 10);
            stdout.write_all(first).unwrap();
            drop(stdout);
            second.to_vec()
        });
        rig.run_until(|rig| rig.streams.carriers[1].is_none());
        stderr.write_all(&giver.join().unwrap()).unwrap();
        drop(stderr);
        rig.drain();
    }
    assert!(fs::read(&path).unwrap() == [&data[..], &data[..]].concat());
    assert_eq!(fs::metadata(rig.path("made")).unwrap().mode() & 0o7777 & !0o022, 0o755);
}

#[test]
fn a_full_disk_loses_output_and_stops_nobody() {
    let mut rig = Rig::new();
    let ends = rig.open(["", "/dev/full", "/dev/null"], false);
    let write = |end: Option<OwnedFd>| File::from(end.unwrap()).write_all(&noise(200_000)).unwrap();
    let giver = thread::spawn(move || (write(ends.stdout), write(ends.stderr)));
    rig.drain();
    giver.join().unwrap();
}

#[test]
fn stdin_may_be_a_file() {
    let mut rig = Rig::new();
    let data = noise(150_000);
    fs::write(rig.path("input"), &data).unwrap();
    let path = rig.path("input");
    let stdin = impatient(rig.open([&path, "", ""], false).stdin);
    let seen = rig.read_all(&stdin);
    assert!(seen == data);
}

#[test]
fn what_is_not_there_is_an_error() {
    let rig = Rig::new();
    let missing = rig.path("missing");
    let out = rig.path("out");
    for [stdin, stdout, stderr] in [
        [&*missing, "", ""],
        ["", &missing, ""],
        ["", &out, &missing],
        ["", "ftp://a/b", ""],
        ["binary:///a", "", ""],
        ["", "", "binary:///a"],
    ] {
        let (terminal, namespace, process, owner) = (false, "n", "p", None);
        let asked = Asked { stdin, stdout, stderr, terminal, namespace, process, owner };
        let error = Streams::open(&asked).unwrap_err();
        assert!(!error.to_string().is_empty());
    }
}

#[test]
fn a_fifo_that_is_called_a_file_waits_for_nobody() {
    let mut rig = Rig::new();
    let uri = format!("file://{}", rig.path("out"));
    let ends = rig.open(["", &uri, ""], false);
    File::from(ends.stdout.unwrap()).write_all(b"said").unwrap();
    let out = reader(rig.path("out"));
    assert_eq!(rig.read_all(&out), b"said");
}

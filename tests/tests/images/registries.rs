//! Registries that send too slowly or too little: a pull ends in bounded time, and at once after a signal.

use super::{V2, visible};
use dayfly_tests::bed::Bed;
use dayfly_tests::case;
use dayfly_tests::image::{self, Layer};
use dayfly_tests::runner::Case;
use dayfly_tests::runtime::{Call, uses_every_fast_path};
use rustix::process::Signal;
use serde_json::json;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

dayfly_tests::subject!(Tools, CASES);

const CASES: &[Case] = &[
    case!(one_that_drips).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(one_that_breaks_off).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(one_that_breaks_off_and_goes_on).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(errors_in_mid_transfer).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(one_without_ranges).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(signals_end_a_stalled_transfer).on(V2).when(uses_every_fast_path).needs(image::needed),
    case!(the_lock_is_not_waited_for_for_ever)
        .on(V2)
        .when(uses_every_fast_path)
        .needs(image::needed),
];

/// The behaviour of a registry when it should send a document or a layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Sends the document or layer completely.
    Sound,
    /// Sends a byte every 100 ms.
    Drips,
    /// Sends this many bytes, and closes the connection.
    Breaks(usize),
    /// Sends the header, and then nothing.
    Stalls,
    /// Sends this many bytes at the first request, and then nothing; sends the rest at the next request.
    StallsOnce(usize),
    /// Sends this many bytes at the first request, and closes the connection; answers the given number of requests with
    /// 503; then sends the rest.
    Refuses(usize, usize),
    /// Does not support ranges. Sends this many bytes and closes the connection, with twice as many bytes at the second
    /// request, and so on.
    Anew(usize),
}

/// A registry on this host with one image.
struct Registry {
    port: u16,
    asked: Arc<AtomicUsize>,
}

impl Registry {
    fn serve(manifests: Way, layers: Way) -> Self {
        Self::serve_long(400_000, manifests, layers)
    }

    /// Starts a registry whose layer contains a file of `length` bytes.
    fn serve_long(length: u32, manifests: Way, layers: Way) -> Self {
        let noise: Vec<u8> =
            (0..length).map(|at| (at.wrapping_mul(at ^ 0x5bd1_e995) >> 7) as u8).collect();
        let layer = Layer::new().file("noise", 0o644, &noise).archive();
        let config = json!({
            "os": "linux", "architecture": "amd64", "config": { "Cmd": ["/x"] },
            "rootfs": { "type": "layers", "diff_ids": [image::digest(&layer)] },
        });
        let config = config.to_string().into_bytes();
        let manifest = json!({
            "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": {
                "mediaType": "application/vnd.oci.image.config.v1+json",
                "digest": image::digest(&config), "size": config.len(),
            },
            "layers": [{
                "mediaType": "application/vnd.oci.image.layer.v1.tar",
                "digest": image::digest(&layer), "size": layer.len(),
            }],
        });
        let listener = TcpListener::bind("127.0.0.1:0").expect("bind");
        let port = listener.local_addr().expect("address").port();
        let asked = Arc::new(AtomicUsize::new(0));
        let (count, manifest) = (Arc::clone(&asked), manifest.to_string().into_bytes());
        // The thread ends with this process.
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (count, layer) = (Arc::clone(&count), layer.clone());
                let (manifest, config) = (manifest.clone(), config.clone());
                thread::spawn(move || {
                    let mut reader = BufReader::new(stream.try_clone().expect("clone"));
                    while let Some((path, from)) = request(&mut reader) {
                        let (body, way) = if path.contains("/manifests/") {
                            (&manifest, manifests)
                        } else if path.ends_with(&image::digest(&config)) {
                            (&config, Way::Sound)
                        } else {
                            (&layer, layers)
                        };
                        let is_counted = std::ptr::eq(body, &raw const layer) || way != Way::Sound;
                        let before = count.fetch_add(usize::from(is_counted), Ordering::Relaxed);
                        if !answer(&stream, body, from, way, before) {
                            return;
                        }
                    }
                });
            }
        });
        Self { port, asked }
    }

    fn pull(&self, bed: &Bed, options: &[&str]) -> Call {
        let name = format!("127.0.0.1:{}/x:latest", self.port);
        image::call(bed, &[&["pull", &name, "--plain-http"], options].concat())
    }
}

/// Reads a request; returns its path, and the first byte of its range.
fn request(reader: &mut BufReader<TcpStream>) -> Option<(String, usize)> {
    let (mut path, mut from) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            return Some((path?, from));
        }
        if let Some(range) = line.strip_prefix("range: bytes=") {
            from = range.trim_end_matches('-').parse().ok()?;
        }
        path = path.or_else(|| line.split(' ').nth(1).map(str::to_owned));
    }
}

/// Answers a request that `before` others preceded; returns whether the connection stays open.
fn answer(mut stream: &TcpStream, body: &[u8], from: usize, way: Way, before: usize) -> bool {
    let way = match way {
        Way::StallsOnce(_) | Way::Refuses(..) if before == 0 => way,
        Way::Refuses(_, times) if before <= times => {
            let refusal = "HTTP/1.1 503 Busy\r\nContent-Length: 5\r\n\r\nlater";
            return stream.write_all(refusal.as_bytes()).is_ok();
        }
        Way::StallsOnce(_) | Way::Refuses(..) => Way::Sound,
        way => way,
    };
    let from = if matches!(way, Way::Anew(_)) { 0 } else { from };
    let status = if from > 0 { "206 Partial Content" } else { "200 OK" };
    let body = &body[from.min(body.len())..];
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: application/vnd.oci.image.manifest.v1+json\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    if stream.write_all(head.as_bytes()).is_err() {
        return false;
    }
    match way {
        Way::Sound => stream.write_all(body).is_ok(),
        Way::Anew(step) => {
            let after = step * (before + 1);
            let _ = stream.write_all(&body[..after.min(body.len())]);
            body.len() <= after
        }
        Way::Breaks(after) | Way::Refuses(after, _) => {
            let _ = stream.write_all(&body[..after.min(body.len())]);
            body.len() <= after
        }
        Way::Drips => body.iter().all(|&byte| {
            thread::sleep(Duration::from_millis(100));
            stream.write_all(&[byte]).is_ok()
        }),
        Way::Stalls | Way::StallsOnce(_) => {
            let after = if let Way::StallsOnce(after) = way { after } else { 0 };
            let _ = stream.write_all(&body[..after]);
            thread::sleep(Duration::from_secs(600));
            false
        }
    }
}

/// Asserts that a pull fails within `limit`, with this error.
#[track_caller]
fn given_up(bed: &Bed, registry: &Registry, limit: Duration, text: &str) {
    let begin = Instant::now();
    let outcome = registry.pull(bed, &["--timeout", "1"]).run().exits(1);
    assert!(begin.elapsed() < limit, "{:?}: {outcome}", begin.elapsed());
    assert!(outcome.stderr.contains(text), "lacks {text:?}: {outcome}");
    assert_eq!(visible(bed), Vec::<PathBuf>::new(), "left by {outcome}");
}

fn one_that_drips(bed: &Bed) {
    let layers = Registry::serve(Way::Sound, Way::Drips);
    given_up(bed, &layers, Duration::from_secs(15), "which is too slow; --timeout");
    assert_eq!(layers.asked.load(Ordering::Relaxed), 4);
    let manifests = Registry::serve(Way::Drips, Way::Sound);
    given_up(bed, &manifests, Duration::from_secs(10), "which is too slow; --timeout");
}

fn one_that_breaks_off(bed: &Bed) {
    let registry = Registry::serve(Way::Sound, Way::Breaks(1000));
    given_up(bed, &registry, Duration::from_secs(15), "given up after 4000 of");
    assert_eq!(registry.asked.load(Ordering::Relaxed), 4);
}

/// The transfer continues as long as each attempt receives at least 64 KiB more.
fn one_that_breaks_off_and_goes_on(bed: &Bed) {
    let registry = Registry::serve(Way::Sound, Way::Breaks(70_000));
    registry.pull(bed, &[]).run().ok();
    // The layer has 400 KB, and each attempt may lose the last piece that was sent.
    let asked = registry.asked.load(Ordering::Relaxed);
    assert!((6..=8).contains(&asked), "{asked}");
}

/// After any error in mid-transfer, the rest is requested again. If the new request fails, the pull reports that error.
fn errors_in_mid_transfer(bed: &Bed) {
    for (way, asked) in [(Way::StallsOnce(70_000), 2), (Way::Refuses(70_000, 1), 3)] {
        let registry = Registry::serve(Way::Sound, way);
        registry.pull(bed, &["--timeout", "1"]).run().ok();
        assert_eq!(registry.asked.load(Ordering::Relaxed), asked, "{way:?}");
        let name = format!("127.0.0.1:{}/x:latest", registry.port);
        image::call(bed, &["rm", &name]).run().ok();
    }
    let registry = Registry::serve(Way::Sound, Way::Refuses(70_000, 100));
    given_up(bed, &registry, Duration::from_secs(15), "status 503 (later)");
    assert_eq!(registry.asked.load(Ordering::Relaxed), 4);
}

/// Each attempt receives bytes again that were received before: a pull accepts this up to eight times the blob's
/// length.
fn one_without_ranges(bed: &Bed) {
    let registry = Registry::serve(Way::Sound, Way::Anew(70_000));
    registry.pull(bed, &[]).run().ok();
    assert_eq!(registry.asked.load(Ordering::Relaxed), 6);
    image::call(bed, &["rm", &format!("127.0.0.1:{}/x:latest", registry.port)]).run().ok();
    // A blob of 2 MB would take 29 attempts. After the 22nd, 231 times 70 KB were received in vain.
    let registry = Registry::serve_long(2_000_000, Way::Sound, Way::Anew(70_000));
    given_up(bed, &registry, Duration::from_secs(40), "given up after 1540000 of");
    assert_eq!(registry.asked.load(Ordering::Relaxed), 22);
}

fn signals_end_a_stalled_transfer(bed: &Bed) {
    for (manifests, layers, signal) in [
        (Way::Sound, Way::Stalls, Signal::INT),
        (Way::Sound, Way::Stalls, Signal::TERM),
        (Way::Stalls, Way::Sound, Signal::INT),
    ] {
        let registry = Registry::serve(manifests, layers);
        let pull = registry.pull(bed, &[]).spawn();
        let asked = || registry.asked.load(Ordering::Relaxed) > 0;
        dayfly_tests::wait::until_true("the registry is asked", asked);
        pull.until_it_waits();
        let begin = Instant::now();
        rustix::process::kill_process(pull.pid(), signal).expect("kill");
        let outcome = pull.wait().exits(1);
        assert!(begin.elapsed() < Duration::from_secs(2), "{:?}: {outcome}", begin.elapsed());
        assert!(outcome.stderr.contains("interrupted"), "{outcome}");
        assert_eq!(visible(bed), Vec::<PathBuf>::new(), "left by {outcome}");
    }
}

fn the_lock_is_not_waited_for_for_ever(bed: &Bed) {
    let registry = Registry::serve(Way::Sound, Way::Stalls);
    let pull = registry.pull(bed, &[]).spawn();
    let asked = || registry.asked.load(Ordering::Relaxed) > 0;
    dayfly_tests::wait::until_true("the registry is asked", asked);
    let begin = Instant::now();
    let outcome = image::call(bed, &["gc", "--wait", "1"]).run().exits(1);
    assert!(begin.elapsed() < Duration::from_secs(10), "{:?}: {outcome}", begin.elapsed());
    let who = format!("process {} (", pull.pid().as_raw_nonzero());
    assert!(outcome.stderr.contains(&who) && outcome.stderr.contains("--wait"), "{outcome}");
    // A command that waits reacts to signals as well.
    let gc = image::call(bed, &["gc"]).spawn();
    gc.until_it_waits();
    let begin = Instant::now();
    rustix::process::kill_process(gc.pid(), Signal::TERM).expect("kill");
    let outcome = gc.wait().exits(1);
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}: {outcome}", begin.elapsed());
    rustix::process::kill_process(pull.pid(), Signal::INT).expect("kill");
    drop(pull.wait().exits(1));
}

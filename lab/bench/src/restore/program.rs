//! The programs that warm up: each loads libraries as a server written in its language does, reports that it is ready,
//! and continues to report.

use super::Warmed;
use crate::Error;
use crate::process;
use crate::python::{IMPORTS, PYTHON as INTERPRETER, SOURCE, add_mount, mount_host};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

/// The directory in the container in which a program reports that it is ready.
const OUT: &str = "/out";
/// The file that reports that a program is ready, in [`OUT`].
pub(super) const READY: &str = "ready";
/// The time that the Java compiler may take.
const COMPILER: Duration = Duration::from_secs(60);

const PYTHON: &str = "\
import os, time
while True:
    if not os.path.exists('/out/ready'):
        open('/out/ready', 'w').close()
    time.sleep(0.001)
";

const NODE: &str = "\
for (const name of ['assert', 'child_process', 'cluster', 'crypto', 'dns', 'events', 'http', 'http2', 'https', 'net',
    'os', 'path', 'perf_hooks', 'querystring', 'readline', 'stream', 'string_decoder', 'tls', 'url', 'util', 'v8', 'vm',
    'worker_threads', 'zlib'])
    require(name);
const fs = require('fs');
setInterval(() => fs.existsSync('/out/ready') || fs.writeFileSync('/out/ready', ''), 1);
";

const JAVA: &str = "\
import java.nio.file.*;
import java.util.*;
import java.util.regex.*;
import java.util.stream.*;

public class Warm {
    public static void main(String[] arguments) throws Exception {
        Pattern odd = Pattern.compile(\".*[13579]\");
        Map<String, Long> counts = IntStream.range(0, 100000).mapToObj(Integer::toString)
            .filter(text -> odd.matcher(text).matches())
            .collect(Collectors.groupingBy(text -> text.substring(0, 1), TreeMap::new, Collectors.counting()));
        java.util.logging.Logger.getLogger(\"warm\").fine(counts.toString());
        java.time.ZonedDateTime.now().format(java.time.format.DateTimeFormatter.ISO_DATE_TIME);
        java.security.MessageDigest.getInstance(\"SHA-256\").digest(counts.toString().getBytes());
        Path ready = Path.of(\"/out/ready\");
        while (true) {
            if (!Files.exists(ready))
                Files.createFile(ready);
            Thread.sleep(1);
        }
    }
}
";

/// A program, ready to be run in containers.
#[derive(Debug)]
pub(crate) struct Program {
    /// The name of the program in reports.
    pub name: &'static str,
    /// The command. Its standard streams are not files of the host, because criu could not save
    /// these.
    command: String,
    /// The directory of the program's source.
    source: PathBuf,
}

impl Program {
    /// Writes and compiles the program `kind` in a new directory below `directory`.
    ///
    /// # Errors
    /// Errors of the harness itself; [`Error::Out`] if this host cannot run the program.
    pub(crate) fn prepare(kind: Warmed, directory: &Path) -> Result<Self, Error> {
        let (name, executable, package) = match kind {
            Warmed::Python => ("Python", INTERPRETER, "python3"),
            Warmed::Java => ("Java", "/usr/bin/java", "openjdk-17-jdk-headless"),
            Warmed::Node => ("Node.js", "/usr/bin/node", "nodejs"),
        };
        if !Path::new(executable).exists() {
            return Err(Error::Out(format!("no {executable}: apt install {package}")));
        }
        let source = directory.join(name);
        let write = |file: &str, text: &str| {
            let file = source.join(file);
            fs::write(&file, text).map_err(Error::at("write", &file))
        };
        fs::create_dir(&source).map_err(Error::at("make", &source))?;
        let program = match kind {
            Warmed::Python => {
                write("warm.py", &format!("{IMPORTS}{PYTHON}"))?;
                format!("-B {SOURCE}/warm.py")
            }
            Warmed::Node => {
                write("warm.js", NODE)?;
                format!("{SOURCE}/warm.js")
            }
            Warmed::Java => {
                write("Warm.java", JAVA)?;
                let mut compiler = Command::new("/usr/bin/javac");
                compiler.current_dir(&source).arg("Warm.java").stderr(Stdio::null());
                process::run(&mut compiler, COMPILER).map_err(|failure| {
                    Error::Out(format!("/usr/bin/javac: {failure}: apt install {package}"))
                })?;
                // Without this option, the JVM maps a file of counters that other processes may also map.
                format!("-XX:-UsePerfData -cp {SOURCE} Warm")
            }
        };
        let command = format!("exec {executable} {program}");
        Ok(Self { name, command, source })
    }

    /// Makes a container run this program, with the host's libraries, and report in the directory `out`.
    pub(super) fn settle(&self, config: &mut Value, out: &Path) {
        config["process"]["args"] = shell(&self.command);
        mount_host(config, &self.source);
        add_mount(config, out, OUT, &["bind"]);
        leave_out_cgroups(config);
    }
}

/// Makes a container run a shell that reports at once in the directory `out`.
pub(super) fn settle_shell(config: &mut Value, out: &Path) {
    config["process"]["args"] = shell(&format!("echo >{OUT}/{READY}; exec sleep 100000"));
    add_mount(config, out, OUT, &["bind"]);
    leave_out_cgroups(config);
}

/// Removes the mount of cgroups from a container in a user namespace: criu 4.2 may not mount them there.
fn leave_out_cgroups(config: &mut Value) {
    if config["linux"]["uidMappings"].is_array()
        && let Some(mounts) = config["mounts"].as_array_mut()
    {
        mounts.retain(|mount| mount["type"] != "cgroup");
    }
}

/// Returns a command line for the shell. The standard streams are opened in the container's own
/// /dev, so that none of them is a file of the host.
fn shell(command: &str) -> Value {
    json!(["/bin/sh", "-c", format!("exec </dev/null >/dev/null 2>&1; {command}")])
}

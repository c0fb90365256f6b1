//! The programs that warm up: each loads libraries as a server written in its language does, reports that it is ready,
//! and continues to report.

use super::Warmed;
use crate::harness::*;
use crate::python::{
    IMPORTS, PYTHON as INTERPRETER, SOURCE, add_mount, leave_out_cgroups, mount_host,
};

/// The directory in the container in which a program reports that it is ready.
const OUT: &str = "/out";
/// The file that reports that a program is ready, in [`OUT`].
pub(super) const READY: &str = "ready";
/// The time that the Java compiler may take.
const COMPILER: Duration = Duration::from_secs(60);

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
        let (file, text, words) = match kind {
            Warmed::Python => ("warm.py", [IMPORTS, include_str!("warm.py")], "-B"),
            // Without this option, the JVM maps a file of counters that other processes may also map.
            Warmed::Java => ("Warm.java", ["", include_str!("Warm.java")], "-XX:-UsePerfData -cp"),
            Warmed::Node => ("warm.js", ["", include_str!("warm.js")], ""),
        };
        if !Path::new(executable).exists() {
            return Err(Error::Out(format!("no {executable}: apt install {package}")));
        }
        let source = directory.join(name);
        fs::create_dir(&source).map_err(Error::at("make", &source))?;
        let written = source.join(file);
        fs::write(&written, text.concat()).map_err(Error::at("write", &written))?;
        let program = match file.strip_suffix(".java") {
            None => format!("{SOURCE}/{file}"),
            Some(class) => {
                let mut compiler = Command::new("/usr/bin/javac");
                compiler.current_dir(&source).arg(file).stderr(Stdio::null());
                process::run(&mut compiler, COMPILER).map_err(|failure| {
                    Error::Out(format!("/usr/bin/javac: {failure}: apt install {package}"))
                })?;
                format!("{SOURCE} {class}")
            }
        };
        let command = format!("exec {executable} {words} {program}");
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

/// Returns a command line for the shell. The standard streams are opened in the container's own
/// /dev, so that none of them is a file of the host.
fn shell(command: &str) -> Value {
    json!(["/bin/sh", "-c", format!("exec </dev/null >/dev/null 2>&1; {command}")])
}

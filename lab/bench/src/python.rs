//! Python programs for containers, executed by the host's Python and forked by templates.

use crate::harness::*;

/// The interpreter, in the container as on the host.
pub(crate) const PYTHON: &str = "/usr/bin/python3";

/// The directory in the container with the program's source.
pub(crate) const SOURCE: &str = "/source";

/// The warm-up of programs: what a server or a function loads.
pub(crate) const IMPORTS: &str = include_str!("python/imports.py");

/// The library by which a program waits for requests in a template.
const LIBRARY: &str = include_str!("../../../lib/template/dayfly_template.py");
/// The file of the library.
const LIBRARY_FILE: &str = "dayfly_template.py";

/// The time that the compilation of the library may take.
const COMPILER: Duration = Duration::from_secs(60);

/// A program, ready to be run in containers.
#[derive(Debug)]
pub(crate) struct Python {
    /// The directory of the program's source.
    source: PathBuf,
}

impl Python {
    /// The file of the program.
    const FILE: &'static str = "program.py";

    /// Writes a program and the library to the new directory `source`.
    ///
    /// # Errors
    /// No Python on this host; those of mkdir(2) and write(2).
    pub(crate) fn prepare(source: PathBuf, program: &str) -> Result<Self, Error> {
        if !Path::new(PYTHON).exists() {
            bail!("no {PYTHON}: apt-get install python3");
        }
        fs::create_dir(&source).map_err(Error::at("make", &source))?;
        for (file, text) in [(Self::FILE, program), (LIBRARY_FILE, LIBRARY)] {
            let file = source.join(file);
            fs::write(&file, text).map_err(Error::at("write", &file))?;
        }
        // As an installed library is. Containers could not write the compiled file.
        let mut compiler = process::quiet(PYTHON);
        compiler.current_dir(&source).args(["-m", "py_compile", LIBRARY_FILE]);
        process::run(&mut compiler, COMPILER)
            .map_err(|failure| unfit!("{PYTHON} -m py_compile: {failure}"))?;
        Ok(Self { source })
    }

    /// Makes a container of this program with these arguments, which `template` is going to fork if one is named.
    ///
    /// # Errors
    /// Those of mkdir(2) and write(2).
    pub(crate) fn container<'a>(
        &self,
        stand: &'a Stand,
        entrant: &'a Entrant,
        arguments: &[&str],
        template: Option<&str>,
    ) -> Result<Container<'a>, Error> {
        let settle = |config: &mut Value| self.settle(config, arguments);
        let Some(template) = template else {
            return Container::changed(stand, entrant, &[], settle);
        };
        let mut container = Container::forked(stand, entrant, settle)?;
        container.fork_from(template);
        Ok(container)
    }

    /// Makes a container run this program with these arguments.
    pub(crate) fn settle(&self, config: &mut Value, arguments: &[&str]) {
        let program = format!("{SOURCE}/{}", Self::FILE);
        let words = [&[PYTHON, "-B", &program], arguments].concat();
        config["process"]["args"] = json!(words);
        mount_host(config, &self.source);
        leave_out_cgroups(config);
    }
}

/// Removes the mount of cgroups from a container in a user namespace: criu 4.2 may not mount them there.
pub(crate) fn leave_out_cgroups(config: &mut Value) {
    if config["linux"]["uidMappings"].is_array()
        && let Some(mounts) = config["mounts"].as_array_mut()
    {
        mounts.retain(|mount| mount["type"] != "cgroup");
    }
}

/// Mounts the directory of a program's source, and the host's programs and libraries.
pub(crate) fn mount_host(config: &mut Value, source: &Path) {
    add_mount(config, source, SOURCE, &["bind", "ro"]);
    for directory in ["/usr", "/lib", "/lib64", "/etc"] {
        if let Ok(source) = fs::canonicalize(directory) {
            add_mount(config, &source, directory, &["bind", "ro"]);
        }
    }
}

/// Adds a mount of a file or directory of the host.
pub(crate) fn add_mount(config: &mut Value, source: &Path, destination: &str, options: &[&str]) {
    let mount = json!({
        "destination": destination,
        "type": "bind",
        "source": source,
        "options": options,
    });
    if let Some(mounts) = config["mounts"].as_array_mut() {
        mounts.push(mount);
    }
}

//! Requests to systemd (org.freedesktop.systemd1(5)).

use alloc::boxed::Box;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::time::Duration;

use rustix::fd::{BorrowedFd, OwnedFd};
use sys::wait::Deadline;

use crate::systemd::dbus::{self, Address, Bus, Call, Message, Value};
use crate::systemd::{Error, Instance, Property, Unit};

/// The timeout of one call or one job.
const PATIENCE: Duration = Duration::from_secs(30);

/// The time after which the state of a unit is asked for, because the signal of its job's end may be lost.
const SIGNAL_PATIENCE: Duration = Duration::from_secs(2);

/// The private socket on which systemd accepts peer-to-peer D-Bus from root.
const PRIVATE: &str = "/run/systemd/private";

const SYSTEMD: &str = "org.freedesktop.systemd1";
const OBJECT: &str = "/org/freedesktop/systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";

const UNIT: &str = "org.freedesktop.systemd1.Unit";
/// The interface by which properties of any object are read.
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
/// The object that errors name if a call concerns the user's systemd itself instead of a unit.
const USER_INSTANCE: &str = "user instance";

const START: &str = "StartTransientUnit";
const STOP: &str = "StopUnit";

/// The result of a successful job.
const DONE: &str = "done";

/// A connection to systemd.
#[derive(Debug)]
pub struct Manager {
    bus: Bus,
    /// The time limit of a job.
    patience: Duration,
}

impl Manager {
    /// Connects to the systemd that manages a unit.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn connect(unit: &Unit) -> Result<Self, Error> {
        Self::to(&unit.instance).map_err(|error| failed("connect", &unit.name, error))
    }

    /// Connects to a user's systemd.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn of(instance: &Instance) -> Result<Self, Error> {
        Self::to(instance).map_err(|error| failed("connect", USER_INSTANCE, error))
    }

    fn to(instance: &Instance) -> Result<Self, dbus::Error> {
        // systemd's own socket only without a bus: to set up a connection costs systemd 1.0 ms, and the bus 0.8 ms.
        let bus = match instance {
            Instance::System => match Bus::connect(&Address::system(), PATIENCE) {
                Err(error) if error.is_nobody() && rustix::process::geteuid().is_root() => {
                    Bus::peer(&Address::Path(PRIVATE.to_string()), PATIENCE)
                }
                result => result,
            },
            Instance::SystemAt(bus) | Instance::User { bus, .. } => {
                Bus::connect(&Address::parse(bus)?, PATIENCE)
            }
        };
        Ok(Self { bus: bus?, patience: PATIENCE })
    }

    /// Connects to the bus of the host's systemd, and sends the authentication, for [`Manager::on`]. Returns `None`
    /// if this fails.
    pub fn dial() -> Option<OwnedFd> {
        Bus::connect(&Address::system(), PATIENCE).ok().map(Bus::into_socket)
    }

    /// Continues on a connection of [`Manager::dial`].
    pub fn on(dialled: OwnedFd) -> Self {
        Self { bus: Bus::of_authenticated(dialled, true, PATIENCE), patience: PATIENCE }
    }

    /// Returns whether the connection is to a bus, on which no signals of other units arrive.
    pub fn is_on_bus(&self) -> bool {
        self.bus.is_routed()
    }

    /// Starts a transient unit, and waits until the job has finished. If a failed unit with the same name exists, its
    /// failed state is reset first. A unit in another state is an error, or is taken for the one that is requested here:
    /// see [`Manager::accepted`].
    ///
    /// # Errors
    /// [`Error::Call`]; [`Error::Job`] if the unit fails to start.
    pub fn start(&mut self, unit: &Unit, properties: &[Property]) -> Result<(), Error> {
        let call = self.request_start(unit, properties)?;
        let job = match self.accepted(unit, properties, call) {
            Err(Error::Call { cause, .. }) if is_answer(&cause, "UnitExists") => {
                self.reset(unit);
                let call = self.request_start(unit, properties)?;
                self.accepted(unit, properties, call)?
            }
            result => result?,
        };
        self.started(unit, &job)
    }

    /// Sends the request for a transient unit; returns its number, for [`Manager::accepted`].
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn request_start(&mut self, unit: &Unit, properties: &[Property]) -> Result<u32, Error> {
        let arguments = [
            Value::text(&unit.name),
            Value::text("replace"),
            list(properties),
            Value::Array("(sa(sv))".to_string(), Vec::new()),
        ];
        let sent = self.request_job(unit, START, arguments.into());
        sent.map_err(|error| failed(START, &unit.name, error))
    }

    /// Waits until systemd has accepted a request with these properties. From then on the unit exists. Returns the path of
    /// the job that starts it. If systemd is executed again meanwhile, it may have lost the request, which is then sent
    /// again; the path is empty if it had not.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn accepted(
        &mut self,
        unit: &Unit,
        properties: &[Property],
        request: u32,
    ) -> Result<String, Error> {
        let error = |error| failed(START, &unit.name, error);
        match self.job_of(request) {
            Err(cause) if cause.is_absence() => {
                self.bus.await_owner(SYSTEMD).map_err(error)?;
                let request = self.request_start(unit, properties)?;
                match self.job_of(request) {
                    Err(cause) if is_answer(&cause, "UnitExists") => Ok(String::new()),
                    result => result.map_err(error),
                }
            }
            result => result.map_err(error),
        }
    }

    /// Waits until the job has started the unit. If the signal of its end is lost, because systemd was executed again, the
    /// unit's state tells the end.
    ///
    /// # Errors
    /// [`Error::Call`]; [`Error::Job`] if the unit fails to start.
    pub fn started(&mut self, unit: &Unit, job: &str) -> Result<(), Error> {
        let error = |error| failed(START, &unit.name, error);
        let deadline = Deadline::after(self.patience);
        let result = loop {
            let patience = SIGNAL_PATIENCE.min(self.patience);
            match self.bus.signal(patience, |signal| removed(signal, job)).map_err(error)? {
                Some(result) => break result,
                None if deadline.left().is_none() => return Err(error(self.bus.stalled())),
                None => match self.state(unit) {
                    Ok(state) if state == "active" => return Ok(()),
                    Ok(state) if state == "failed" => break state,
                    Err(cause) if !cause.is_absence() => return Err(error(cause)),
                    _ => {}
                },
            }
        };
        if result == DONE {
            return Ok(());
        }
        self.reset(unit);
        Err(Error::Job { unit: unit.name.clone(), result })
    }

    /// Returns the unit's ActiveState.
    fn state(&mut self, unit: &Unit) -> Result<String, dbus::Error> {
        let answer = self.call(MANAGER, "GetUnit", [Value::text(&unit.name)].into())?;
        let path = answer.text().ok_or(dbus::Error::Malformed("no unit in the answer"))?;
        let arguments = [Value::text(UNIT), Value::text("ActiveState")];
        let answer =
            self.bus.call(&Call { path, ..of_systemd(PROPERTIES, "Get", arguments.into()) })?;
        Ok(answer.variant_text().unwrap_or_default().to_string())
    }

    /// Returns whether the end of a job has been received already.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn has_started(&mut self, unit: &Unit, job: &str) -> Result<bool, Error> {
        let found = self.bus.has_signal(|signal| removed(signal, job).is_some());
        found.map_err(|error| failed(START, &unit.name, error))
    }

    /// Returns the connection's socket, which is readable when a message arrives.
    pub fn socket(&self) -> BorrowedFd<'_> {
        self.bus.socket()
    }

    /// Stops a unit and resets its failed state. It is not an error if the unit does not exist.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn stop(&mut self, unit: &Unit) -> Result<(), Error> {
        let call = self.request_stop(unit)?;
        self.stopped(unit, call)
    }

    /// Sends the request to stop a unit; returns its number, for [`Manager::stopped`].
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn request_stop(&mut self, unit: &Unit) -> Result<u32, Error> {
        let arguments = [Value::text(&unit.name), Value::text("replace")];
        let sent = self.request_job(unit, STOP, arguments.into());
        sent.map_err(|error| failed(STOP, &unit.name, error))
    }

    /// Waits until a unit has stopped, and resets its failed state.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn stopped(&mut self, unit: &Unit, request: u32) -> Result<(), Error> {
        let mut stopped = self.job_of(request);
        if stopped.as_ref().is_err_and(dbus::Error::is_absence) {
            let waited = self.bus.await_owner(SYSTEMD);
            waited.map_err(|error| failed(STOP, &unit.name, error))?;
            let request = self.request_stop(unit)?;
            stopped = self.job_of(request);
        }
        match stopped.and_then(|job| self.end_of(&job)) {
            Ok(_) => {}
            Err(error) if is_answer(&error, "NoSuchUnit") => return Ok(()),
            Err(error) => return Err(failed(STOP, &unit.name, error)),
        }
        self.reset(unit);
        Ok(())
    }

    /// Changes properties of a unit; the changes last until the unit stops.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn set(&mut self, unit: &Unit, properties: &[Property]) -> Result<(), Error> {
        let call = "SetUnitProperties";
        let arguments = [Value::text(&unit.name), Value::Bool(true), list(properties)];
        let result = self.call(MANAGER, call, arguments.into());
        result.map(drop).map_err(|error| failed(call, &unit.name, error))
    }

    /// Moves a process into the cgroup of a unit.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn attach(&mut self, unit: &Unit, pid: u32) -> Result<(), Error> {
        let call = "AttachProcessesToUnit";
        let pids = Value::Array("u".to_string(), [Value::Uint32(pid)].into());
        let arguments = [Value::text(&unit.name), Value::text("/"), pids];
        let result = self.call(MANAGER, call, arguments.into());
        result.map(drop).map_err(|error| failed(call, &unit.name, error))
    }

    /// Returns the path of the instance's cgroup, below which systemd creates the cgroups of its units.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn cgroup(&mut self) -> Result<String, Error> {
        let call = "Get ControlGroup";
        let answer = self.property("ControlGroup");
        let answer = answer.map_err(|error| failed(call, USER_INSTANCE, error))?;
        match answer.variant_text() {
            Some(path) => Ok(path.to_string()),
            None => {
                Err(failed(call, USER_INSTANCE, dbus::Error::Malformed("the cgroup is not text")))
            }
        }
    }

    /// Returns systemd's version.
    ///
    /// # Errors
    /// [`Error::Call`]
    pub fn version(&mut self, unit: &Unit) -> Result<u32, Error> {
        let answer = self.property("Version");
        let answer = answer.map_err(|error| failed("Get Version", &unit.name, error))?;
        // The version is a text such as `252.39-1~deb12u1` or `v257`.
        let text = answer.variant_text().unwrap_or_default().trim_start_matches('v');
        let digits = text.split(|c: char| !c.is_ascii_digit()).next().unwrap_or_default();
        digits.parse().map_err(|_| {
            failed("Get Version", &unit.name, dbus::Error::Malformed("the version is not a number"))
        })
    }

    /// Sends the call of a method that queues a job.
    fn request_job(
        &mut self,
        unit: &Unit,
        member: &str,
        arguments: Vec<Value>,
    ) -> Result<u32, dbus::Error> {
        // Unit names contain no quotes.
        self.bus.subscribe(&format!(
            "type='signal',sender='{SYSTEMD}',path='{OBJECT}',interface='{MANAGER}',\
             member='JobRemoved',arg2='{}'",
            unit.name
        ));
        let request = self.bus.queue(&of_systemd(MANAGER, member, arguments));
        self.bus.send_queued()?;
        Ok(request)
    }

    /// Waits for the reply to a call that queues a job; returns the path of the job.
    fn job_of(&mut self, request: u32) -> Result<String, dbus::Error> {
        let answer = self.bus.reply(request)?;
        let job = answer.text().ok_or(dbus::Error::Malformed("no job in the answer"))?;
        Ok(job.to_string())
    }

    /// Waits for the JobRemoved signal of a job; returns the job's result.
    fn end_of(&mut self, job: &str) -> Result<String, dbus::Error> {
        let end = self.bus.signal(self.patience, |signal| removed(signal, job))?;
        end.ok_or_else(|| self.bus.stalled())
    }

    fn reset(&mut self, unit: &Unit) {
        // The call usually fails, because there is no failed unit to reset.
        let _ = self.call(MANAGER, "ResetFailedUnit", [Value::text(&unit.name)].into());
    }

    /// Reads a property of systemd itself.
    fn property(&mut self, name: &str) -> Result<Message, dbus::Error> {
        self.call(PROPERTIES, "Get", [Value::text(MANAGER), Value::text(name)].into())
    }

    fn call(
        &mut self,
        interface: &str,
        member: &str,
        arguments: Vec<Value>,
    ) -> Result<Message, dbus::Error> {
        self.bus.call(&of_systemd(interface, member, arguments))
    }
}

fn of_systemd<'a>(interface: &'a str, member: &'a str, arguments: Vec<Value>) -> Call<'a> {
    Call { destination: SYSTEMD, path: OBJECT, interface, member, arguments }
}

/// Returns the job's result if `signal`, a JobRemoved(id, job, unit, result), concerns `job`. An empty path stands for any
/// job.
fn removed(signal: &Message, job: &str) -> Option<String> {
    if signal.interface != MANAGER || signal.member != "JobRemoved" || signal.signature != "uoss" {
        return None;
    }
    let mut body = signal.body();
    body.u32()?;
    let path = body.string()?;
    let is_ours = job.is_empty() || path == job;
    body.string()?;
    let result = body.string()?;
    is_ours.then(|| result.to_string())
}

fn list(properties: &[Property]) -> Value {
    let pair = |property: &Property| {
        let value = Value::Variant(Box::new(property.value.clone()));
        Value::Struct([Value::text(&property.name), value].into())
    };
    Value::Array("(sv)".to_string(), properties.iter().map(pair).collect())
}

/// Returns whether an error is an error reply of systemd with this name.
fn is_answer(error: &dbus::Error, short: &str) -> bool {
    let name = error.answer().and_then(|name| name.strip_prefix("org.freedesktop.systemd1."));
    name == Some(short)
}

fn failed(call: &'static str, unit: &str, cause: dbus::Error) -> Error {
    Error::Call { call, unit: unit.to_string(), cause }
}

#[cfg(test)]
#[path = "manager_tests.rs"]
mod tests;

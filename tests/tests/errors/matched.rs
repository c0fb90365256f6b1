//! The texts in errors that engines look for: one case for each row of the table in docs/differences.md, "Texts that
//! engines look for".

use crate::binds::{host_dir, text};
use dayfly_tests::bed::Bed;
use dayfly_tests::bundle::Bundle;
use dayfly_tests::case;
use dayfly_tests::runner::Case;
use serde_json::json;
use std::fs;
use std::os::unix::fs::PermissionsExt;

dayfly_tests::subject!(Runtime, CASES);

const CASES: &[Case] =
    &[case!(texts_about_the_program), case!(texts_about_mounts), case!(texts_about_the_container)];

fn with_files(bed: &Bed) -> Bundle<'_> {
    let bundle = bed.bundle();
    let script = bundle.rootfs().join("script");
    fs::write(bundle.rootfs().join("plain"), "").expect("write");
    fs::write(&script, "#!/no/interpreter\n").expect("write");
    fs::set_permissions(script, fs::Permissions::from_mode(0o755)).expect("chmod");
    bundle
}

fn texts_about_the_program(bed: &Bed) {
    let running = with_files(bed).make().detached();
    for (program, text) in [
        ("nope", "exec: \"nope\": executable file not found in $PATH"),
        ("/nope", "exec: \"/nope\": stat /nope: no such file or directory"),
        ("/script", "exec /script: no such file or directory"),
        ("/plain", "exec: \"/plain\": permission denied"),
        ("/etc", "exec: \"/etc\": is a directory: permission denied"),
        ("/plain/x", "exec: \"/plain/x\": stat /plain/x: not a directory"),
    ] {
        let outcomes = [with_files(bed).args(&[program]).make().run(), running.exec(&[program])];
        for outcome in outcomes {
            assert_ne!(outcome.code(), 0, "{outcome}");
            let told = outcome.stderr.replace("\\\"", "\"");
            assert!(told.contains(text), "{program}: {outcome}");
        }
    }
}

fn texts_about_mounts(bed: &Bed) {
    let dir = host_dir(bed, "shared");
    let missing = bed.dir.join("missing");
    for (source, destination, told) in [
        (&missing, "/mnt", "no such file or directory"),
        (&dir, "/plain", "not a directory"),
        (&dir.join("inside"), "/etc", "not a directory"),
    ] {
        let bundle = with_files(bed).mount("bind", text(source), destination, &["bind"]);
        bundle.make().create().fails(told);
    }
    let c = with_files(bed).set("/process/cwd", json!("/plain")).make();
    c.create().fails("not a directory");
}

fn texts_about_the_container(bed: &Bed) {
    let c = bed.bundle().args(&["/bin/true"]).make();
    for command in ["kill", "state", "delete", "start"] {
        c.id_call(command, &[], &[]).run().fails("container does not exist");
    }
    c.create().ok();
    c.start().ok();
    c.wait_status("stopped");
    c.kill("KILL").fails("container not running");
    c.delete().ok();
}

//! Agents that listen, and what they say of the programs that use them.

use super::*;
use flash_c::agents::*;
use flash_tests::plugins;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

/// A `flash serve`, which is ended when it is dropped.
struct Serving(Child);

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn list() -> *mut AgentsHandle {
    let mut agents = null_mut();
    ok(unsafe { flash_agents_list(&mut agents) });
    agents
}

fn agent(agents: *const AgentsHandle, index: usize) -> AgentReport {
    let mut report = no_agent();
    ok(unsafe { flash_agents_agent(agents, index, &mut report) });
    report
}

fn no_agent() -> AgentReport {
    AgentReport { name: null(), key: null(), uptime_s: 0.0, pid: 0, clients: 0 }
}

fn no_client() -> ClientReport {
    ClientReport { devices: null(), uptime_s: 0.0, launches: 0, bytes: 0, pid: 0, agent: 0 }
}

fn words(text: *const std::ffi::c_char) -> String {
    unsafe { CStr::from_ptr(text) }.to_str().unwrap().to_owned()
}

/// Until `look` finds something in a list.
fn within<T>(mut look: impl FnMut(*mut AgentsHandle) -> Option<T>) -> T {
    let begin = Instant::now();
    loop {
        let agents = list();
        let found = look(agents);
        ok(unsafe { flash_agents_free(agents) });
        if let Some(found) = found {
            return found;
        }
        assert!(begin.elapsed() < Duration::from_secs(120), "it has not happened");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn agents_are_listed_with_their_programs_and_what_these_have_done() {
    let folder = tempfile::tempdir().unwrap();
    let prepare = || vec![("XDG_RUNTIME_DIR", folder.path().as_os_str().to_owned())];
    plugins::in_child("listed", prepare, || {
        let count = |agents| {
            let mut count = usize::MAX;
            ok(unsafe { flash_agents_count(agents, &mut count) });
            count
        };
        let none = list();
        assert_eq!(count(none), 0);
        fails(
            unsafe { flash_agents_agent(none, 0, &mut no_agent()) },
            STATUS_RANGE,
            &["one of 0 agents, found 0"],
        );

        let mut serve = plugins::flash("", &["serve", "ALL_CPU", "--listen", "lab"]);
        let serving = Serving(serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let report = within(|agents| {
            (count(agents) == 1).then(|| {
                let report = agent(agents, 0);
                assert_eq!((words(report.name), words(report.key)), ("lab".to_owned(), "ALL_CPU".to_owned()));
                report
            })
        });
        assert_eq!((report.pid, report.clients), (serving.0.id(), 0));
        assert!(report.uptime_s >= 0.0 && report.uptime_s < 120.0);
        // The list that was made before is as it was.
        assert_eq!(count(none), 0);
        ok(unsafe { flash_agents_free(none) });

        // This program uses it.
        let rt = Runtime::open("ALL_CPU@lab");
        let kernel = rt.kernel("flash.ewmm");
        let n = 10_000u64;
        let arrays = [memory("f32", &vec![2f32; n as usize]), memory("f32", &vec![3f32; n as usize])];
        let out = zeroed("f32", &[n]);
        let arguments = [value(VALUE_U64, n), array(arrays[0]), array(arrays[1]), array(out)];
        for _ in 0..7 {
            ok(unsafe { flash_kernel_launch(kernel, arguments.as_ptr(), 4, &super::count(n), 1) });
        }
        let client = within(|agents| {
            assert_eq!(agent(agents, 0).clients, 1);
            let mut client = no_client();
            ok(unsafe { flash_agents_client(agents, 0, 0, &mut client) });
            if client.launches > 0 {
                assert_eq!(words(client.devices), "ALL_CPU:0");
            }
            (client.launches == 7).then_some(client)
        });
        assert_eq!(client.pid, std::process::id());
        assert!(client.agent != client.pid && client.agent != serving.0.id() && client.uptime_s >= 0.0);
        assert_eq!(contents::<f32>(out), vec![6f32; n as usize]);
        let agents = list();
        let all = unsafe {
            [
                flash_agents_client(agents, 0, 1, &mut no_client()),
                flash_agents_client(agents, 1, 0, &mut no_client()),
                flash_agents_agent(agents, 1, &mut no_agent()),
            ]
        };
        assert_eq!(all, [STATUS_RANGE; 3]);
        ok(unsafe { flash_agents_free(agents) });
        free(&[kernel], &[arrays[0], arrays[1], out], &[]);
    });
}

#[test]
fn what_is_no_list_is_an_error() {
    let mut count = 0;
    let agents = list();
    let all = unsafe {
        [
            flash_agents_list(null_mut()),
            flash_agents_count(null(), &mut count),
            flash_agents_count(agents, null_mut()),
            flash_agents_agent(null(), 0, &mut no_agent()),
            flash_agents_agent(agents, 0, null_mut()),
            flash_agents_client(null(), 0, 0, &mut no_client()),
            flash_agents_client(agents, 0, 0, null_mut()),
        ]
    };
    assert_eq!(all, [STATUS_POINTER; 7]);
    ok(unsafe { flash_agents_free(agents) });
    ok(unsafe { flash_agents_free(null_mut()) });
    fails(unsafe { flash_agents_free(agents) }, STATUS_POINTER, &["list of agents"]);
}

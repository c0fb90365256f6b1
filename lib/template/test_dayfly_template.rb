# frozen_string_literal: true

# Tests of dayfly_template with a runtime that the tests play. They need root and Linux 6.15.
#
#     ruby test_dayfly_template.rb [-n NAME]

require "etc"
require "fiddle"
require "fileutils"
require "json"
require "minitest"
require "open3"
require "pty"
require "rbconfig"
require "socket"
require "tmpdir"

HERE = __dir__
UNIFIED = "/sys/fs/cgroup/unified"
FREEZER = "/sys/fs/cgroup/freezer"
GROUP = "dayfly-test-template-ruby"

# The longest time in seconds that anything may take on a slow host.
PATIENCE = 60

# Since Ruby 3.3, the interpreter has a thread of its own.
HAS_THREAD = (RUBY_VERSION.split(".").map(&:to_i) <=> [3, 3]) >= 0

# The host's ids of the template's user namespace.
BASE = 100_000

NEWNS, NEWCGROUP, NEWUTS, NEWIPC = 0x20000, 0x02000000, 0x04000000, 0x08000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
JOINED = { "net" => NEWNET, "ipc" => NEWIPC, "uts" => NEWUTS, "mnt" => NEWNS }.freeze

# The capabilities that engines give to a container.
CAPABILITIES = 0xA80425FB
SYS_ADMIN = 1 << 21
NET_BIND_SERVICE = 1 << 10

# The flags of message F.
INTO_CGROUP, FIRST_IS_UNIFIED, HAS_FILTER = 1, 2, 4

SO_PASSCRED, SO_PASSPIDFD = 16, 76
SCM_RIGHTS, SCM_CREDENTIALS, SCM_PIDFD = 1, 2, 4

# What the program reports is what a program sees of its new container.
PROGRAM = <<~'RUBY'
  require "openssl"
  require "securerandom"
  require "tempfile"
  require "fiddle"
  require "dayfly_template"

  handle = Fiddle::Handle::DEFAULT
  long = Fiddle::TYPE_LONG
  CALL = Fiddle::Function.new(handle["syscall"], [long] * 6, long)
  ARM = RbConfig::CONFIG["host_cpu"] == "aarch64"
  BUFFER = Fiddle::Pointer.malloc(64)

  def call(number, *arguments)
    CALL.call(number, *arguments, *[0] * (5 - arguments.size))
  end

  def prctl(*arguments)
    call(ARM ? 167 : 157, *arguments)
  end

  def session_keyring
    call(ARM ? 219 : 250, 0, -3, 0)
  end

  def attempt
    yield
  rescue SystemCallError => error
    error.errno
  end

  def libc_thread_id
    prctl(40, BUFFER.to_i)
    Fiddle::Pointer.new(BUFFER[0, 8].unpack1("Q"))[0, 4].unpack1("l")
  end

  def descriptors
    numbers = Dir.children("/proc/self/fd").map(&:to_i)
    numbers.filter_map { |number| File.readlink("/proc/self/fd/#{number}") rescue nil }
      .map { |link| link.sub(/:.*/, "") }.sort
  end

  Signal.trap("USR1") { $handled = true }
  Signal.trap("USR2") { throw :out }
  BUFFER[0, 8] = [1 << 9].pack("Q")
  call(ARM ? 135 : 14, 0, BUFFER.to_i, 0, 8) # blocks SIGUSR1
  opened = File.open("/dev/null")
  keyring = session_keyring
  Signal.trap("CHLD") { $reaped = true } if ENV["HANDLER"]
  if ENV["AMBIENT"]
    BUFFER[0, 8] = [0x20080522, 0].pack("L2")
    call(ARM ? 90 : 125, BUFFER.to_i, BUFFER.to_i + 8)
    sets = BUFFER[8, 24].unpack("L6")
    sets[2] |= 1 << 10
    BUFFER[8, 24] = sets.pack("L6")
    call(ARM ? 91 : 126, BUFFER.to_i, BUFFER.to_i + 8)
    prctl(47, 2, 10)
  end
  prctl(4, 0) if ENV["UNDUMPABLE"]
  $0 = "another name" if ENV["NAME"]
  Process.pid unless ENV["NO_PID"]
  called = []
  DayflyTemplate.register { called << ARGV.dup << Process.pid unless ARGV == ["strict"] }
  HOOKS = []
  module Hook
    def _fork
      super.tap do |pid|
        HOOKS << [pid, Process.euid, ARGV.dup] if pid.zero? && ARGV != ["strict"]
      end
    end
  end
  Process.singleton_class.prepend(Hook)
  if ENV["THREAD"]
    require "json"
    JSON.singleton_class.prepend(Module.new do
      def parse(...)
        Thread.new { sleep }
        super
      end
    end)
  end
  OpenSSL::Random.random_bytes(1)
  SecureRandom.hex
  srand(1)
  Time.now.localtime.to_s
  Dir::Tmpname.create("x") { |path| path }
  filler = Array.new(ENV["FILLER_MB"].to_i * 10_000) { |number| "#{number} " * 12 }
  if ENV["SYNC"]
    $stdout.sync = true
    $stdout.set_encoding("UTF-16LE")
    $stderr.binmode
  end
  streams = [$stdin, $stdout, $stderr].map(&:object_id)
  # No child may write this again.
  $stdout.print("written by the warm-up ") if ENV["DAYFLY_TEMPLATE"]
  at_exit { $stdout.syswrite("at_exit\n") } if ENV["AT_EXIT"]
  begin
    thrown = true
    catch(:out) do
      DayflyTemplate.wait
      thrown = false
    end
  rescue Exception => error
    $stdout.syswrite("an exception has reached the program: #{error.inspect}")
    raise
  ensure
    $stdout.syswrite("the program goes on after a throw") if thrown && !error
  end

  case ARGV
  when ["strict"]
    $stdout.syswrite("\n")
    exit!(7)
  when ["end"]
    exit(9)
  when ["faults"]
    faults = File.read("/proc/self/stat").split[9].to_i
    $stdout.syswrite([Marshal.dump({ faults: faults })].pack("m0") + "\n")
    exit!(0)
  end
  status = File.read("/proc/self/status").lines.to_h { |line| line.chomp.split(":\t", 2) }
  files = descriptors
  dumpable = prctl(3)
  reopened = attempt { File.open("/proc/self/fd/2", "w").close }
  signals = %w[SigPnd SigBlk SigIgn SigCgt].map { |name| [name, status[name]] }.to_h
  # How the interpreter works after the fork.
  BUFFER[0, 8] = "\0" * 8
  call(ARM ? 135 : 14, 2, BUFFER.to_i, 0, 8)
  Process.kill("USR1", Process.pid)
  thread = Thread.new { sleep(0.001); :done }.value
  output, write = IO.pipe
  grandchild = fork do
    write.write([Process.pid, $$, call(ARM ? 172 : 39), Process.ppid].inspect)
    write.flush
    exit!(0)
  end
  Process.wait(grandchild)
  write.close
  report = {
    argv: ARGV, frozen: ARGV.all?(&:frozen?), name: $0, env: ENV.to_h, cwd: Dir.pwd,
    umask: File.umask, groups: Process.groups.sort,
    ids: status.values_at("Uid", "Gid").flat_map { |ids| ids.split.map(&:to_i) },
    pid: [Process.pid, $$, call(ARM ? 172 : 39)], sid: Process.getsid, called: called,
    hooks: HOOKS, thread: thread, handled: $handled, grandchild: [grandchild, output.read],
    ids_of_thread: [call(ARM ? 178 : 186), libc_thread_id],
    random: rand, random_class: Random.rand, secure: SecureRandom.hex,
    openssl: OpenSSL::Random.random_bytes(8), tempfile: Dir::Tmpname.create("x") { |path| path },
    priority: attempt { Process.getpriority(Process::PRIO_PROCESS, 0) }, reopened: reopened,
    status: attempt { system("exit 3"); $?.exitstatus }, files: files, signals: signals,
    dumpable: dumpable, keyrings: [keyring, session_keyring],
    streams: streams == [$stdin, $stdout, $stderr].map(&:object_id),
    sync: [$stdin, $stdout, $stderr].map(&:sync), binmode: $stderr.binmode?,
    encodings: [$stdout, $stderr].map { |stream| stream.external_encoding&.name },
    zone: Time.at(0).hour, garbage: GC.disable, opened: opened.closed?, filler: filler.size,
  }
  $stdout.syswrite([Marshal.dump(report)].pack("m0") + "\n")
  $stderr.write("to stderr\n")
  $stdout.set_encoding(nil)
  $stdout.print("read ", $stdin.gets)
  $stdout.flush
  $stdout.print("half a line, ", "the rest\n", "more")
  $stdin.gets
  exit!(5)
RUBY

# System calls that Ruby lacks.
module Native
  LONG = Fiddle::TYPE_LONG
  HANDLE = Fiddle::Handle::DEFAULT

  def self.function(name, arguments)
    Fiddle::Function.new(HANDLE[name], [LONG] * arguments, Fiddle::TYPE_INT, need_gvl: true)
  end

  UNSHARE = function("unshare", 1)
  MOUNT = function("mount", 5)
  FORK = function("fork", 0)
  EXECVE = function("execve", 3)
  WAITPID = function("waitpid", 3)
  MEMFD_CREATE = function("memfd_create", 2)
  SYSCALL = function("syscall", 5)

  def self.check(result)
    raise SystemCallError.new(nil, Fiddle.last_error) if result.negative?

    result
  end

  def self.text(string)
    string ? Fiddle::Pointer[string] : 0
  end

  def self.unshare(flags)
    check(UNSHARE.call(flags))
  end

  def self.mount(source, target, kind, flags = 0)
    words = [source, target, kind].map { |word| text(word) }
    check(MOUNT.call(*words.map(&:to_i), flags, 0))
  end

  # Forks without a thread of the interpreter, which it would start since Ruby 3.3: a process with
  # threads cannot make a user namespace. The block must not return.
  def self.fork
    $stdout.flush
    pid = HAS_THREAD ? check(FORK.call) : Process.fork.to_i
    return pid unless pid.zero?

    begin
      yield
    rescue Exception => error # nothing of the tests may run in this process
      $stderr.syswrite("#{error.full_message}\n")
    ensure
      Process.exit!(1)
    end
  end

  def self.execute(command, environment)
    lists = [command, environment.map { |entry| entry.join("=") }].map do |words|
      pointers = words.map { |word| text(word) }
      [pointers, Fiddle::Pointer[[*pointers.map(&:to_i), 0].pack("Q*")]]
    end
    check(EXECVE.call(text(command[0]).to_i, *lists.map { |list| list[1].to_i }))
  end

  def self.wait(pid)
    WAITPID.call(pid, 0, 0)
  end

  def self.pidfd(pid)
    check(SYSCALL.call(434, pid, 0, 0, 0)) # pidfd_open
  end

  # Another process may get the id of one that has ended, but not its pidfd.
  def self.kill(signal, pidfd)
    check(SYSCALL.call(424, pidfd, Signal.list.fetch(signal), 0, 0)) # pidfd_send_signal
  end

  def self.memfd(data)
    descriptor = check(MEMFD_CREATE.call(text("test").to_i, 3)) # MFD_CLOEXEC, MFD_ALLOW_SEALING
    IO.for_fd(descriptor, "w", autoclose: false).syswrite(data)
    descriptor
  end
end

def close(descriptors)
  descriptors.each { |descriptor| IO.for_fd(descriptor).close }
end

def send_message(socket, message, descriptors = [])
  rights = Socket::AncillaryData.new(:UNIX, :SOCKET, :RIGHTS, descriptors.pack("l*"))
  socket.sendmsg(message, Socket::MSG_NOSIGNAL, nil, *(descriptors.empty? ? [] : [rights]))
end

Message = Struct.new(:text, :descriptors, :pid, :pidfd)

# Receives a message, with its descriptors, the sender's pid and its pidfd.
def receive(socket)
  raise "no answer" unless IO.select([socket], nil, nil, PATIENCE)

  text, _, _, *controls = socket.recvmsg(65_536, 0, 4096, scm_rights: true)
  message = Message.new(text || "", [])
  controls.each do |control|
    case control.type
    when SCM_RIGHTS
      message.descriptors = control.unix_rights.map do |file|
        file.autoclose = false
        file.fileno
      end
    when SCM_CREDENTIALS then message.pid = control.data.unpack1("l")
    when SCM_PIDFD then message.pidfd = control.data.unpack1("l")
    end
  end
  message
rescue Errno::ECONNRESET
  Message.new("", [])
end

# Reads what is there, within some seconds.
def read_some(descriptor, size = 100)
  file = IO.for_fd(descriptor, autoclose: false)
  raise "no output" unless IO.select([file], nil, nil, PATIENCE)

  file.read_nonblock(size)
rescue EOFError
  ""
end

def read_failure(answer)
  raise "unexpected answer #{answer.inspect}" unless answer.start_with?("E")

  [answer[1, 4].unpack1("l<"), answer.byteslice(5..).force_encoding("UTF-8")]
end

# The container of a template: PID 1 is a reaper.
class World
  def initialize(directory, command, environment = {}, cgroup: nil, same_id: false)
    @path = File.join(directory, "socket")
    @command = command
    @environment = { "PATH" => "/usr/bin:/bin", "WARM" => "1" }.merge(environment)
    @same_id = same_id
    FileUtils.rm_f(@path)
    listener = Socket.new(:UNIX, :SEQPACKET)
    listener.bind(Addrinfo.unix(@path, :SEQPACKET))
    listener.listen(64)
    @control, control = Socket.pair(:UNIX, :SEQPACKET)
    @control.setsockopt(Socket::SOL_SOCKET, SO_PASSCRED, 1)
    @pid = Native.fork { enter(control, listener, cgroup) }
    control.close
    listener.close
    receive(@control)
    %w[uid_map gid_map].each { |name| File.write("/proc/#{@pid}/#{name}", "0 #{BASE} 65536") }
    @control.send("mapped", 0)
  end

  # Makes the PID 1 of a new container, which may have files of its own in /etc.
  def make_init(files = {})
    @control.send("init#{Marshal.dump(files)}", 0)
    message = receive(@control)
    raise "no init: #{message}" unless message.text == "init"

    Init.new(message.pid, ["pid", *JOINED.keys].zip(message.descriptors).to_h)
  end

  # Sends a signal to the template. Returns how it has ended.
  def kill_template(signal)
    @control.send("kill#{signal}", 0)
    receive(@control).text
  end

  def connect
    Socket.new(:UNIX, :SEQPACKET).tap { |socket| socket.connect(Addrinfo.unix(@path, :SEQPACKET)) }
  end

  # Sends one message. Returns the errno and the text of the answer.
  def ask(message, descriptors = [])
    connection = connect
    send_message(connection, message, descriptors)
    read_failure(receive(connection).text)
  ensure
    connection&.close
  end

  def close
    @control.close
    Native.wait(@pid)
  end

  private

  def enter(control, listener, cgroup)
    # A control socket of another world would keep that world alive.
    @control.close
    kept = [0, 1, 2, control.fileno, listener.fileno]
    File.write("#{cgroup}/cgroup.procs", "0") if cgroup
    Native.unshare(NEWNS)
    Native.mount(nil, "/", nil, 0x44000) # MS_REC | MS_PRIVATE
    Native.unshare(NEWUSER)
    control.send("map", 0)
    control.recv(16)
    Process.groups = []
    Process::Sys.setresgid(0, 0, 0)
    Process::Sys.setresuid(0, 0, 0)
    Native.unshare(NEWNS | NEWPID | NEWUTS | NEWIPC | NEWNET)
    pid = Native.fork { reap(control, listener, kept) }
    [control, listener].each(&:close)
    Native.wait(pid)
    Process.exit!(0)
  end

  # Is PID 1.
  def reap(control, listener, kept)
    Native.mount("proc", "/proc", "proc")
    Dir.children("/proc/self/fd").each do |name|
      # These are the interpreter's own.
      next if File.readlink("/proc/self/fd/#{name}").start_with?("anon_inode:")

      IO.for_fd(name.to_i).close unless kept.include?(name.to_i)
    rescue SystemCallError
      nil
    end
    # A template of dayfly has another id than its children.
    3.times { Native.wait(Native.fork { Process.exit!(0) }) } unless @same_id
    template = Native.fork do
      [STDIN, STDOUT].each { |stream| stream.reopen("/dev/null", stream == STDIN ? "r" : "w") }
      listener.close_on_exec = false
      number = listener.fileno.to_s
      Native.execute(@command, @environment.merge("DAYFLY_TEMPLATE" => number))
    end
    listener.close
    loop { obey(control, control.recv(65_536).to_s, template) }
  end

  def obey(control, order, template)
    Process.exit!(0) if order.empty?
    if order.start_with?("init")
      Native.fork { start_init(control, Marshal.load(order[4..])) }
    elsif order.start_with?("kill")
      Process.kill(order[4..], template)
      _, status = Process.wait2(template)
      control.send(status.inspect[/(SIG\w+|exit \d+)/], 0)
    end
  end

  def start_init(control, files)
    Native.unshare(NEWNS | NEWPID | NEWUTS | NEWIPC | NEWNET)
    Native.fork do
      Native.mount("proc", "/proc", "proc")
      Native.mount("tmpfs", "/etc", "tmpfs") unless files.empty?
      files.each { |path, content| make_file(path, content) }
      names = ["pid", *JOINED.keys]
      send_message(control, "init", names.map { |name| IO.sysopen("/proc/self/ns/#{name}") })
      sleep
    end
    Process.exit!(0)
  end

  def make_file(path, content)
    if content == "|"
      File.mkfifo(path)
    elsif content.start_with?("-> ")
      File.symlink(content[3..], path)
    else
      File.binwrite(path, content)
      File.chmod(content.start_with?("private") ? 0o600 : 0o644, path)
    end
  end
end

# The PID 1 of a new container.
class Init
  attr_reader :pid, :namespaces

  def initialize(pid, namespaces)
    @pid = pid
    @namespaces = namespaces
  end

  def close
    return if @namespaces.empty?

    Process.kill("KILL", @pid)
    Object.send(:close, @namespaces.values)
    @namespaces = {}
  end
end

# A child, as the runtime sees it.
class Child
  attr_reader :init, :connection, :stub, :pid, :stdin, :stdout, :stderr, :pidfd

  def initialize(world, init, command)
    @world = world
    @init = init
    @command = command
    @mine = []
    @streams = []
  end

  # Prepares what the child needs: the description of its program, and its streams.
  def prepare(*arguments, filter: nil, owner: 0, text: nil, streams: nil, **changes)
    capabilities = %w[bounding effective permitted].to_h { |name| [name, CAPABILITIES] }
    body = {
      args: [*@command, *arguments], env: ["PATH=/usr/bin:/bin"], homeOf: nil, cwd: "/",
      umask: 0o22, uid: 0, gid: 0, groups: [], noNewPrivileges: false,
      capabilities: capabilities.merge("inheritable" => 0, "ambient" => 0),
      keyring: "dayfly-test", seccomp: nil,
    }.merge(changes)
    @stub, stub = Socket.pair(:UNIX, :SEQPACKET)
    @streams = streams || make_pipes(owner)
    text ||= JSON.generate(body)
    @description = [Native.memfd(text), stub.fileno]
    stub.autoclose = false
    @description << Native.memfd(filter) if filter
  end

  # Asks the template for the child.
  def request(cgroup: nil, procs: [], flags: 0)
    flags |= HAS_FILTER if @description.size == 3
    passed = @description
    if cgroup
      flags |= INTO_CGROUP
      passed << IO.sysopen(cgroup)
    end
    passed += procs.map { |path| IO.sysopen(path, "w") }
    message = ["F", 1, flags, procs.size].pack("aC3")
    # The template does not wait long for the message.
    @connection = @world.connect
    [SO_PASSCRED, SO_PASSPIDFD].each { |name| @connection.setsockopt(Socket::SOL_SOCKET, name, 1) }
    send_message(@connection, message, [init.namespaces["pid"], *passed])
    Object.send(:close, passed)
  end

  # Returns B, or the failure of the template.
  def born
    answer = receive(@connection)
    keep(answer)
    answer.text
  end

  # Sends the container to the child, which may be gone.
  def enter(message = nil, descriptors = nil)
    message ||= ["C", *JOINED.values].pack("aL<*")
    descriptors ||= @streams + JOINED.keys.map { |name| init.namespaces[name] }
    send_message(@connection, message, descriptors)
    close_streams
  end

  # Returns the answer of the child: R, or the errno and the text of its failure.
  def ready
    answer = receive(@connection)
    keep(answer)
    answer.text == "R" ? "R" : read_failure(answer.text)
  end

  # Lets the child go. Returns its report.
  def go
    @stub.send("G", 0)
    line = read_line
    raise "no report: #{line.inspect}" unless line.end_with?("\n")

    line == "\n" ? {} : Marshal.load(line.unpack1("m"))
  end

  def read_line
    line = "".b
    until line.end_with?("\n")
      part = read_some(stdout, 1)
      break if part.empty?

      line << part
    end
    line
  end

  def write(text)
    IO.for_fd(stdin, "w", autoclose: false).syswrite(text)
  end

  def status
    lines = File.read("/proc/#{pid}/status").lines
    lines.to_h { |line| line.chomp.split(":\t", 2) }
  end

  # Waits for the end of the child, which its parent does not see.
  def ended?
    !IO.select([IO.for_fd(pidfd, autoclose: false)], nil, nil, PATIENCE).nil?
  end

  def close_streams
    Object.send(:close, @streams)
    @streams = []
  end

  def close
    @connection&.close
    @stub&.close
    Object.send(:close, @mine)
    close_streams
  end

  private

  def make_pipes(owner)
    stdin, own_stdin = IO.pipe
    own_stdout, stdout = IO.pipe
    own_stderr, stderr = IO.pipe
    File.for_fd(stderr.fileno, "w", autoclose: false).chown(owner, -1)
    pipes = [own_stdin, own_stdout, own_stderr, stdin, stdout, stderr]
    pipes.each { |pipe| pipe.autoclose = false }
    # Programs get pipes that wait.
    [stdin, stdout, stderr].each { |pipe| pipe.fcntl(4, 0) }
    @stdin, @stdout, @stderr = [own_stdin, own_stdout, own_stderr].map(&:fileno)
    @mine.push(@stdin, @stdout, @stderr)
    [stdin, stdout, stderr].map(&:fileno)
  end

  def keep(answer)
    @pid = answer.pid || @pid
    return unless answer.pidfd

    @pidfd = answer.pidfd
    @mine << @pidfd
  end
end

# Makes a filter that answers calls by their number, and others otherwise.
def make_filter(pairs, otherwise)
  code = [0x20, 0, 0, 0].pack("SCCL") # load the number of the call
  pairs.each do |number, answer|
    code += [0x15, 0, 1, number].pack("SCCL") # skip the answer if it is another
    code += [0x06, 0, 0, answer].pack("SCCL")
  end
  code + [0x06, 0, 0, otherwise].pack("SCCL")
end

ALLOW, ERRNO, KILL = 0x7FFF0000, 0x00050000, 0x80000000
ARM = RbConfig::CONFIG["host_cpu"] == "aarch64"
GETPRIORITY = ARM ? 141 : 140
# sendto, recvfrom, close, capset, what a program needs to report (write, exit_group), and what an
# interpreter needs for its memory (brk, mmap, munmap, madvise, futex).
FEW = ARM ? [206, 207, 57, 91, 64, 94, 214, 222, 215, 233, 98] :
  [44, 45, 3, 126, 1, 231, 12, 9, 11, 28, 202]
# Since Ruby 3.3, the interpreter starts a thread: clone, clone3, mprotect, set_robust_list, rseq,
# rt_sigprocmask, epoll_create1, epoll_ctl, epoll_wait, epoll_pwait, eventfd2, gettid.
FOR_THREAD = ARM ? [220, 435, 226, 99, 293, 135, 20, 21, 22, 19, 178] :
  [56, 435, 10, 273, 334, 14, 291, 233, 232, 281, 290, 186]

# A template that the tests of a class share.
class Case < Minitest::Test
  class << self
    attr_reader :directory, :command, :world, :environment

    def variables
      {}
    end

    def options
      {}
    end

    def needs_template?
      true
    end

    def run(*)
      start if needs_template? && !REASON
      super
    ensure
      if needs_template? && world
        world.close
        FileUtils.rm_rf(directory)
      end
    end

    def start
      @directory = Dir.mktmpdir("dayfly-template-")
      File.chmod(0o755, directory)
      FileUtils.cp(File.join(HERE, "dayfly_template.rb"), directory)
      program = File.join(directory, "program.rb")
      File.write(program, PROGRAM)
      # Gems would look into the home of root.
      @command = [RbConfig.ruby, "-w", "--disable-gems", "-I", directory, program]
      @environment = variables
      @world = World.new(directory, [*command, "warm"], environment, **options)
      [directory, world]
    end
  end

  def setup
    skip(REASON) if REASON
    @cleanups = []
  end

  def teardown
    @cleanups&.reverse_each(&:call)
  end

  def world = self.class.world
  def command = self.class.command
  def directory = self.class.directory

  # Makes a directory that only its owner and its group may enter.
  def make_directory(name, owner, group)
    path = File.join(directory, name)
    Dir.mkdir(path)
    File.chown(owner, group, path)
    File.chmod(0o770, path)
    path
  end

  # Asks for a child.
  def start(*arguments, world: self.world, request: {}, files: {}, **changes)
    init = world.make_init(files)
    @cleanups << init.method(:close)
    child = Child.new(world, init, command)
    @cleanups << child.method(:close)
    child.prepare(*arguments, **changes)
    child.request(**request)
    child
  end

  # Starts a child. Returns it with its report.
  def run_child(*arguments, **changes)
    child = start(*arguments, **changes)
    assert_equal("B", child.born)
    child.enter
    assert_equal("R", child.ready)
    [child, child.go]
  end

  # Returns the failure of a child, which then ends without a word of the program.
  def refuse(*arguments, message: nil, descriptors: nil, **changes)
    child = start(*arguments, **changes)
    assert_equal("B", child.born)
    child.enter(message, descriptors)
    failure = child.ready
    child.connection.shutdown(Socket::SHUT_WR)
    assert_equal("", receive(child.connection).text)
    assert(child.ended?)
    assert_equal("", read_some(child.stdout))
    failure
  end

  def null
    file = File.open("/dev/null", "r+")
    @cleanups << file.method(:close)
    file.fileno
  end
end

# What the program of the new container sees.
class Programs < Case
  def test_directories
    { "root's" => [BASE, BASE], "user's" => [0, BASE + 6] }.each do |name, (owner, group)|
      path = make_directory(name, owner, group)
      _, report = run_child(uid: 5, gid: 6, cwd: path)
      assert_equal(path, report[:cwd])
    end
  end

  def test_command_and_environment
    entries = ["A=1", "A=2", "B=x=y", "EMPTY=", "none", "=x", "LONG=#{"x" * 70_000}", "Z=\u00e4",
               "TZ=XYZ-3", "LC_ALL=C"]
    _, report = run_child("one", "zwei \u00e4", "", env: entries, cwd: "/usr", umask: 0o77)
    assert_equal(["one".b, "zwei \u00e4".b, "".b], report[:argv].map(&:b))
    assert(report[:frozen])
    assert_equal(command[-1], report[:name])
    expected = { "A" => "1", "B" => "x=y", "EMPTY" => "", "LONG" => "x" * 70_000,
                 "Z" => "\u00e4".b, "TZ" => "XYZ-3", "LC_ALL" => "C" }
    assert_equal(expected, report[:env].transform_values(&:b).transform_keys(&:b))
    assert_equal(3, report[:zone])
    assert_equal("/usr", report[:cwd])
    assert_equal(0o77, report[:umask])
    assert_equal([[report[:argv], report[:sid]].flatten], [report[:called].flatten])
  end

  # Text that is no UTF-8.
  def test_bytes
    text = JSON.generate(
      args: [*command, "BYTES"], env: ["X=BYTES"], homeOf: nil, cwd: "/", umask: 0, uid: 0, gid: 0,
      groups: nil, noNewPrivileges: false, capabilities: nil, keyring: nil, seccomp: nil,
    )
    _, report = run_child(text: text.b.gsub("BYTES", "\xFF\xE4".b))
    assert_equal(["\xFF\xE4".b], report[:argv].map(&:b))
    assert_equal("\xFF\xE4".b, report[:env]["X"].b)
  end

  # The interpreter works as after a fork of its own.
  def test_interpreter
    _, report = run_child("x")
    pid = report[:sid]
    assert_equal([pid] * 3, report[:pid])
    assert_equal([pid] * 2, report[:ids_of_thread])
    assert_equal(:done, report[:thread])
    assert(report[:handled])
    grandchild, said = report[:grandchild]
    assert_equal([grandchild, grandchild, grandchild, pid].inspect, said)
    assert_equal(3, report[:status])
    refute(report[:garbage])
  end

  # Libraries see a fork in the container.
  def test_hooks
    _, report = run_child("x", uid: 5, gid: 5, capabilities: nil)
    assert_equal([[0, 5, ["x"]]], report[:hooks])
  end

  def test_streams
    child, report = run_child
    ordinary = run_ordinary
    # The last one is the directory that the program lists.
    assert_equal(ordinary[:files], report[:files])
    assert(report[:streams])
    assert_equal([false, false, true], report[:sync])
    child.write("a line\n")
    assert_equal("read a line\n", child.read_line)
    assert_equal("to stderr\n", read_some(child.stderr))
    # What follows is still in the buffer of the program.
    child.write("\n")
    assert(child.ended?)
    assert_equal("", read_some(child.stdout))
  end

  # A terminal gets each line at once.
  def test_terminal
    PTY.open do |ours, theirs|
      child = start(streams: Array.new(3) { theirs.dup.tap { |io| io.autoclose = false }.fileno })
      assert_equal("B", child.born)
      child.enter
      assert_equal("R", child.ready)
      child.stub.send("G", 0)
      report = Marshal.load(ours.gets.unpack1("m"))
      assert(report[:streams])
      assert_equal([false, false, true], report[:sync])
      ours.write("a line\n")
      # The terminal may echo the line before the program writes.
      expected = ["a line", "half a line, the rest", "read a line", "to stderr"]
      assert_equal(expected, Array.new(4) { ours.gets.chomp }.sort)
    end
  end

  # The program handles, ignores and blocks the signals that it does in an ordinary start.
  def test_signals
    _, report = run_child
    assert_equal(run_ordinary[:signals], report[:signals])
  end

  def test_keyring
    _, report = run_child
    of_template, own = report[:keyrings]
    assert_operator(own, :>, 0)
    refute_equal(of_template, own)
  end

  # HOME is that of the container's own passwd(5).
  def test_home
    entry = "other:x:123:1:::\nuser:x:1234:1::%s:/bin/sh"
    find = { homeOf: 1234, env: ["LC_ALL=C"] }
    user = { uid: 5, gid: 5, capabilities: nil }
    [
      [entry % "/home/user", {}, "/home/user"],
      [entry % "/home/user", user, "/home/user"],
      ["#{entry % ""}\nsame:x:1234:1::/same:", {}, "/same"],
      [(entry % "/home/%").b.sub("%", "\xFF\xE4".b), {}, "/home/\xFF\xE4".b],
      [entry % "/home/user", { homeOf: 123 }, "/"],
      [entry % "/home/user", { homeOf: 12 }, "/"],
      [entry % "/a\0b", {}, "/"],
      ["\n::\nx:y\n", {}, "/"],
      ["", {}, "/"],
      ["private\n#{entry % "/home/user"}", user, "/"],
      # The image decides what is in this place.
      ["|", {}, "/"],
      ["-> /dev/zero", {}, "/"],
      ["-> /etc", {}, "/"],
      ["-> /proc/self/mem", {}, "/"],
      ["-> passwd", {}, "/"],
    ].each do |content, change, expected|
      _, report = run_child(files: { "/etc/passwd" => content }, **find.merge(change))
      assert_equal({ "LC_ALL" => "C", "HOME" => expected.b }, report[:env].transform_values(&:b))
    end
    _, report = run_child(files: { "/etc/group" => "" }, **find)
    assert_equal({ "LC_ALL" => "C", "HOME" => "/" }, report[:env])
    files = { "/etc/passwd" => entry % "/home/user" }
    _, report = run_child(files: files, env: ["LC_ALL=C", "HOME=/own"])
    assert_equal({ "LC_ALL" => "C", "HOME" => "/own" }, report[:env])
  end

  # The time zone is that of the container.
  def test_zone
    counts = [0, 0, 0, 0, 1, 4]
    block = ["TZif2", *counts, 3 * 3600, "XYZ"].pack("a20N6Nx2a4")
    zone = "#{block}#{block}\nXYZ-3\n"
    [["/etc/localtime", []], ["/etc/zone", ["TZ=:/etc/zone"]]].each do |path, entries|
      _, report = run_child(files: { path => zone }, env: entries)
      assert_equal(3, report[:zone])
    end
  end

  def test_root_with_a_filter
    code = make_filter([[GETPRIORITY, ERRNO | Errno::ENOTSUP::Errno]], ALLOW)
    child, report = run_child(filter: code, seccomp: { flags: 0 })
    assert_equal(Errno::ENOTSUP::Errno, report[:priority])
    check_status(child, CAPABILITIES, CAPABILITIES, 0, 0, no_new_privileges: 0, seccomp: 2)
  end

  def test_user
    code = make_filter([[GETPRIORITY, ERRNO | Errno::ENOTSUP::Errno]], ALLOW)
    mask = NET_BIND_SERVICE
    sets = { bounding: CAPABILITIES, effective: mask, permitted: mask, inheritable: mask,
             ambient: mask | SYS_ADMIN }
    child, report = run_child(uid: 1000, gid: 1001, groups: [7, 8], capabilities: sets,
                              noNewPrivileges: true, filter: code, seccomp: { flags: 0 })
    assert_equal([1000] * 4 + [1001] * 4, report[:ids])
    assert_equal([7, 8], report[:groups])
    check_status(child, mask, CAPABILITIES, mask, mask, no_new_privileges: 1, seccomp: 2)
  end

  def test_user_with_a_filter_that_needs_a_capability
    sets = %w[bounding effective permitted inheritable ambient].to_h { |name| [name, 0] }
    child, = run_child(uid: 5, gid: 5, capabilities: sets, seccomp: { flags: 0 },
                       filter: make_filter([], ALLOW))
    check_status(child, 0, 0, 0, 0, no_new_privileges: 0, seccomp: 2)
  end

  def test_user_without_capabilities
    child, report = run_child(uid: 5, gid: 5, groups: nil, capabilities: nil, owner: BASE + 5)
    assert_equal("0" * 16, child.status["CapPrm"])
    assert_equal("0" * 16, child.status["CapEff"])
    # The user can open the files of its own streams, as after an execve.
    assert_nil(report[:reopened])
  end

  def test_strict_filter
    calls = FEW + (HAS_THREAD ? FOR_THREAD : [])
    sets = %w[bounding effective permitted inheritable ambient].to_h { |name| [name, 0] }
    [{}, { uid: 5, gid: 5, capabilities: sets }].each do |change|
      code = make_filter(calls.map { |number| [number, ALLOW] }, KILL)
      child, = run_child("strict", filter: code, seccomp: { flags: 0 }, **change)
      assert(child.ended?)
    end
  end

  def test_namespaces
    child, report = run_child
    (Dir.children("/proc/#{child.pid}/ns") - ["time_for_children"]).each do |name|
      own = File.readlink("/proc/#{child.pid}/ns/#{name}")
      assert_equal(File.readlink("/proc/#{child.init.pid}/ns/#{name}"), own, name)
    end
    assert_equal(2, report[:sid])
  end

  def test_random_numbers
    reports = Array.new(3) { run_child[1] }
    %i[random random_class secure openssl tempfile].each do |name|
      assert_equal(3, reports.map { |report| report[name] }.uniq.size, name)
    end
  end

  def test_end_without_go
    child = start
    assert_equal("B", child.born)
    child.enter
    assert_equal("R", child.ready)
    child.stub.close
    assert(child.ended?)
    assert_equal("", read_some(child.stdout))
  end

  private

  # Returns the report of an ordinary start.
  def run_ordinary
    variables = { "PATH" => "/usr/bin:/bin", "WARM" => "1" }.merge(self.class.environment)
    output, = Open3.capture3(variables, *command, stdin_data: "\n\n", chdir: "/",
                             unsetenv_others: true, close_others: true)
    Marshal.load(output.lines[0].unpack1("m"))
  end

  def check_status(child, own, bounding, inheritable, ambient, no_new_privileges:, seccomp:)
    status = child.status
    found = %w[CapPrm CapEff CapBnd CapInh CapAmb].map { |name| status[name].hex }
    assert_equal([own, own, bounding, inheritable, ambient], found)
    assert_equal(no_new_privileges.to_s, status["NoNewPrivs"])
    assert_equal(seccomp.to_s, status["Seccomp"])
  end
end

# Signals that a child gets before its container is complete.
class Signals < Case
  # Sends signals to a child. Each handler raises, throws or ends the program. Returns nil if the
  # child has ended.
  def interrupt(child, times)
    times.times { |time| Native.kill(%w[INT USR2 TERM][time % 3], child.pidfd) }
  rescue Errno::ESRCH
    nil
  end

  def check_end(child)
    child.connection.close
    assert(child.ended?)
    assert_equal("", read_some(child.stdout))
  end

  # They are delivered when it is complete, and end the child.
  def test_before_the_container
    [1, 2, 3, 30].each do |times|
      child = start
      assert_equal("B", child.born)
      interrupt(child, times)
      child.enter
      answer = receive(child.connection).text
      assert_includes(["", "E"], answer[0].to_s)
      assert_equal([Errno::EIO::Errno, "Interrupt"], read_failure(answer)) if times == 1
      check_end(child)
    end
  end

  def test_before_go
    [1, 2, 3, 30, 300].each do |times|
      child = start
      assert_equal("B", child.born)
      child.enter
      assert_equal("R", child.ready)
      interrupt(child, times)
      check_end(child)
    end
  end

  # Signals all the time, also while the child ends for the first of them.
  def test_storm
    10.times do
      child = start
      assert_equal("B", child.born)
      storm = Thread.new { loop { interrupt(child, 3) || break } }
      child.enter
      receive(child.connection)
      check_end(child)
      storm.join
    end
  end

  # A handler that returns changes nothing.
  def test_handlers_that_return
    child = start
    assert_equal("B", child.born)
    Native.kill("USR1", child.pidfd)
    child.enter
    assert_equal("R", child.ready)
    Native.kill("USR1", child.pidfd)
    assert(child.go[:handled])
  end
end

# A template that has more rights than its children get, and whose program wants more.
class Rights < Programs
  def self.variables
    { "AMBIENT" => "1", "HANDLER" => "1", "UNDUMPABLE" => "1", "SYNC" => "1", "NO_PID" => "1",
      "NAME" => "1" }
  end

  (public_instance_methods - Case.public_instance_methods).grep(/^test_/).each do |name|
    undef_method(name) unless %i[test_signals test_interpreter].include?(name)
  end

  def test_ambient_capabilities
    names = %w[bounding effective permitted inheritable]
    sets = names.to_h { |name| [name, CAPABILITIES] }.merge("ambient" => 0)
    child, = run_child(capabilities: sets)
    assert_equal("0" * 16, child.status["CapAmb"])
    parent = File.read("/proc/#{child.status["PPid"]}/status")
    assert_includes(parent, format("CapAmb:\t%016x", NET_BIND_SERVICE))
  end

  # A program that has made its /proc that of root keeps it so.
  def test_dumpable
    _, report = run_child(uid: 5, gid: 5, capabilities: nil)
    assert_equal(0, report[:dumpable])
  end

  # The program keeps what it has wanted of its streams.
  def test_streams
    PTY.open do |_, terminal|
      child = start
      assert_equal("B", child.born)
      streams = child.instance_variable_get(:@streams)
      namespaces = JOINED.keys.map { |name| child.init.namespaces[name] }
      child.enter(nil, [terminal.fileno, streams[1], terminal.fileno] + namespaces)
      assert_equal("R", child.ready)
      report = child.go
      assert_equal([false, true, true], report[:sync])
      assert(report[:binmode])
      assert_equal([Encoding::UTF_16LE, Encoding::BINARY].map(&:name), report[:encodings])
      assert_equal("another name", report[:name])
    end
  end
end

# A program that starts a thread in each child, which would have the rights of the template.
class Threads < Case
  def self.variables
    { "THREAD" => "1" }
  end

  def test_threads
    assert_equal([Errno::EINVAL::Errno, "setns: mnt namespace"], refuse)
    failure = refuse(message: "C", descriptors: [null] * 3)
    assert_equal([Errno::EINVAL::Errno, "unshare: the process has several threads"], failure)
  end
end

# A template whose children have its id.
class SameId < Case
  def self.options
    { same_id: true }
  end

  def test_same_id
    unless HAS_THREAD
      text = "Ruby #{RUBY_VERSION}: the child has the id of the template"
      assert_equal([Errno::ENOTSUP::Errno, text], refuse)
      return
    end
    reports = Array.new(3) { run_child[1] }
    %i[random random_class secure openssl tempfile].each do |name|
      assert_equal(3, reports.map { |report| report[name] }.uniq.size, name)
    end
    assert_equal([2] * 3, reports[0][:pid])
    assert(reports[0][:handled])
  end
end

# What children and the template refuse.
class Failures < Case
  # The template goes on, whatever it has refused.
  def teardown
    unless skipped?
      _, report = run_child("still")
      assert_equal(["still"], report[:argv])
    end
    super
  end

  def test_another_program
    own = command.join(" ")
    failure = refuse(args: ["/bin/sh", "-c", "true"])
    text = "the program is /bin/sh -c true, but the template's is #{own}"
    assert_equal([Errno::ENOEXEC::Errno, text], failure)
    assert_equal(Errno::ENOEXEC::Errno, refuse(args: command[0...-1])[0])
    assert_equal(Errno::ENOEXEC::Errno, refuse(args: [])[0])
  end

  def test_steps
    assert_equal([Errno::ENOENT::Errno, "chdir: /none"], refuse(cwd: "/none"))
    assert_equal([Errno::EINVAL::Errno, "setresuid: 70000"], refuse(uid: 70_000))
    assert_equal([Errno::EINVAL::Errno, "setresgid: 70000"], refuse(gid: 70_000))
    assert_equal([Errno::EINVAL::Errno, "setgroups: [1, 70000]"], refuse(groups: [1, 70_000]))
    assert_equal("seccomp", refuse(seccomp: { flags: 0 }, filter: "12345678")[1])
    assert_equal(Errno::EACCES::Errno, refuse(cwd: make_directory("a", 0, 0))[0])
  end

  def test_bodies
    [{ uid: "x" }, { uid: -1 }, { uid: 2**32 - 1 }, { gid: 2**64 }, { umask: nil }, { env: 1 },
     { capabilities: {} }, { groups: "x" }, { groups: ["x"] }, { homeOf: "x" }, { env: ["A=\0"] },
     { cwd: "x" * 200_000 }, { args: [1] }, { text: "no JSON" }, { text: "" }, { text: "[]" },
     { text: "{}" }, { text: "[" * 1000 }].each do |change|
      refute_equal(0, refuse(**change)[0], change)
    end
  end

  def test_filters
    wrong = [Errno::EBADMSG::Errno, "recvmsg: message F with a wrong filter"]
    assert_equal(wrong, refuse(seccomp: { flags: 0 }))
    assert_equal(wrong, refuse(filter: make_filter([], ALLOW)))
  end

  # The number of descriptors must be that of the flags.
  def test_flags
    wrong = [Errno::EBADMSG::Errno, "recvmsg: message F with wrong descriptors"]
    [{ flags: HAS_FILTER }, { flags: INTO_CGROUP }, { flags: FIRST_IS_UNIFIED }].each do |request|
      assert_equal(wrong, read_failure(start(request: request).born))
    end
    child = start(filter: "", request: { flags: INTO_CGROUP })
    assert_equal(wrong, read_failure(child.born))
  end

  # Message C must have three streams, and a descriptor for each type of namespace.
  def test_containers
    kind = [NEWUTS].pack("L<")
    wrong = [Errno::EBADMSG::Errno, "recvmsg: message C with wrong descriptors"]
    [["C", 0], ["C", 2], ["C", 4], ["C#{kind}", 3], ["C#{kind}", 5],
     ["C#{kind}#{kind}", 4]].each do |message, count|
      assert_equal(wrong, refuse(message: message, descriptors: [null] * count), [message, count])
    end
    ["D", "C1", "C#{kind}123"].each do |message|
      failure = refuse(message: message, descriptors: [null] * 3)
      assert_equal([Errno::EPROTO::Errno, "recvmsg: unknown message"], failure)
    end
    failure = refuse(message: "C#{kind}", descriptors: [null] * 4)
    assert_equal([Errno::EINVAL::Errno, "setns: uts namespace"], failure)
    failure = refuse(message: "C" * 100, descriptors: [null] * 4)
    assert_equal([Errno::EBADMSG::Errno, "recvmsg: the message is too long"], failure)
  end

  def test_end_instead_of_a_container
    child = start
    assert_equal("B", child.born)
    child.connection.shutdown(Socket::SHUT_WR)
    assert_equal("", receive(child.connection).text)
    assert_equal("", receive(child.stub).text)
  end

  def test_messages
    descriptor = null
    ask = lambda { |message, count = 0| world.ask(message, [descriptor] * count) }
    assert_equal(Errno::EPROTO::Errno, ask.call("X")[0])
    assert_equal(Errno::EPROTO::Errno, ask.call("F\2\0\0", 3)[0])
    assert_equal(Errno::EPROTO::Errno, ask.call("F\1\x80\0".b, 3)[0])
    bad = Errno::EBADMSG::Errno
    assert_equal(bad, ask.call("F\1")[0])
    assert_equal(bad, ask.call("F\1\0\0")[0])
    assert_equal(bad, ask.call("F\1\0\0", 2)[0])
    assert_equal(bad, ask.call("F\1\0\1", 3)[0])
    assert_equal(bad, ask.call("F\1\2\0", 3)[0])
    assert_equal(bad, ask.call("F\1\0\0", 253)[0])
    assert_equal(bad, ask.call("F" * 5000, 20)[0])
    assert_equal([Errno::EINVAL::Errno, "setns pid namespace"], ask.call("F\1\0\0", 3))
    init = world.make_init
    @cleanups << init.method(:close)
    failure = world.ask("F\1\1\0", [init.namespaces["pid"]] + [descriptor] * 3)
    assert_equal([Errno::EBADF::Errno, "clone3"], failure)
  end

  # The template answers whether it serves, and goes on.
  def test_questions
    [[], [null]].each do |descriptors|
      connection = world.connect
      send_message(connection, "H\1", descriptors)
      assert_equal("H", receive(connection).text)
      assert_equal("", receive(connection).text)
      connection.close
    end
    numbers = ["H\2", "H", "H\1\1"].map { |message| world.ask(message)[0] }
    assert_equal([Errno::EPROTO::Errno] * 3, numbers)
  end

  def test_peers
    world.connect.close
    silent = world.connect
    assert_equal(Errno::ETIMEDOUT::Errno, read_failure(receive(silent).text)[0])
    silent.close
    connection = world.connect
    send_message(connection, "X")
    connection.close
    start.connection.close
    child = start
    assert_equal("B", child.born)
    child.connection.close
  end

  def test_dead_namespace
    init = world.make_init
    @cleanups << -> { close(init.namespaces.values) }
    handle = IO.for_fd(Native.pidfd(init.pid))
    Process.kill("KILL", init.pid)
    assert(IO.select([handle], nil, nil, PATIENCE))
    handle.close
    child = Child.new(world, init, command)
    @cleanups << child.method(:close)
    child.prepare
    child.request
    assert_equal([Errno::ENOMEM::Errno, "fork"], read_failure(child.born))
  end

  def test_procs_files
    child = start(request: { procs: ["/dev/full"] })
    assert_equal([Errno::ENOSPC::Errno, "write: procs file 0"], read_failure(child.born))
  end

  # The template keeps none of what it has received, and its garbage does not grow.
  def test_descriptors_and_memory
    child, = run_child
    parent = child.status["PPid"]
    count = -> { Dir.children("/proc/#{parent}/fd").size }
    memory = -> { File.read("/proc/#{parent}/status")[/RssAnon:\s*(\d+)/, 1].to_i }
    before = count.call
    test_messages
    test_questions
    test_flags
    refuse(cwd: "/none")
    assert_equal(before, count.call)
    ask = -> { 1500.times { world.ask("F\1\0\0") } }
    ask.call
    used = memory.call
    ask.call
    assert_operator(memory.call, :<, used + 500)
  end
end

# A template that ends.
class Endings < Case
  def self.variables
    { "AT_EXIT" => "1" }
  end

  def self.needs_template?
    false
  end

  # Each test ends a template of its own.
  def setup
    super
    directory, world = self.class.start
    @cleanups << -> { FileUtils.rm_rf(directory) } << world.method(:close)
  end

  def test_end_of_the_template
    child, = run_child
    assert_equal("SIGTERM", world.kill_template("TERM"))
    assert_raises(Errno::ECONNREFUSED) { world.connect }
    child.write("on\n")
    assert_equal("read on\n", child.read_line)
  end

  # A handler that throws ends the template, and the program does not go on.
  def test_throw
    run_child
    assert_equal("exit 1", world.kill_template("USR2"))
  end

  # The blocks of at_exit run at the end of the program.
  def test_at_exit
    child = start("end")
    assert_equal("B", child.born)
    child.enter
    assert_equal("R", child.ready)
    child.stub.send("G", 0)
    assert_equal("at_exit\n", child.read_line)
    assert(child.ended?)
  end
end

# Makes cgroups for a template and a child, which the template's root may move processes to.
def with_cgroups
  parent = File.join(UNIFIED, GROUP)
  own, other = %w[template child].map { |name| File.join(parent, name) }
  old = File.join(FREEZER, GROUP)
  made = []
  [parent, own, other, old].each do |path|
    next unless File.directory?(File.dirname(path))

    Dir.mkdir(path)
    made << path
  end
  [parent, other].each { |path| File.chown(BASE, BASE, "#{path}/cgroup.procs") }
  yield own, other, made.include?(old) ? old : nil
ensure
  made.reverse_each { |path| remove(path) }
end

# Removes a cgroup when its last process is gone.
def remove(path)
  200.times do
    return Dir.rmdir(path)
  rescue Errno::EBUSY
    sleep(0.02)
  end
  warn("cgroup #{path} is still in use")
end

# Children in cgroups.
class Cgroups < Case
  def setup
    super
    skip("#{UNIFIED} is not a cgroup2") unless File.exist?("#{UNIFIED}/cgroup.procs")
  end

  def check(clone:, writable: true)
    with_cgroups do |own, other, old|
      world = World.new(directory, [*command, "warm"], {}, cgroup: own)
      begin
        File.chown(0, 0, "#{other}/cgroup.procs") unless writable
        # After a clone into the cgroup, the child must not write to the first file: it could not
        # write to this one.
        first = clone && writable ? "/dev/full" : "#{other}/cgroup.procs"
        procs = [first, *("#{old}/cgroup.procs" if old)]
        request = { procs: procs, flags: FIRST_IS_UNIFIED }
        request[:cgroup] = other if clone
        child, report = run_child(world: world, request: request)
        lines = File.read("/proc/#{child.pid}/cgroup").lines
        assert_includes(lines, "0::/#{GROUP}/child\n")
        assert(lines.any? { |line| line.include?("freezer:/#{GROUP}") }) if old
        assert_equal([report[:sid]] * 2, report[:ids_of_thread])
        assert_equal([report[:sid]] * 3, report[:pid])
        assert(report[:handled])
        assert_equal(3, report[:status])
        child.init.close
      ensure
        world.close
      end
    end
  end

  def test_clone
    check(clone: true)
  end

  def test_files
    check(clone: false)
  end

  def test_clone_that_is_denied
    check(clone: true, writable: false)
  end
end

# Starts without a container.
class Starts < Case
  def self.needs_template?
    false
  end

  # Starts Ruby. Returns what it writes and its status. LISTENER in a variable is the number of a
  # listening socket.
  def run_ruby(code, *options, **variables, &block)
    listener = Socket.new(:UNIX, :SEQPACKET)
    listener.bind(Addrinfo.unix("", :SEQPACKET))
    listener.listen(1)
    number = listener.fileno
    environment = variables.to_h { |name, value| [name.to_s, value.sub("LISTENER", number.to_s)] }
    output, write = IO.pipe
    pid = spawn(environment, RbConfig.ruby, "-w", "-I", HERE, *options, "-e", code, "x",
                number => number, :in => :close, %i[out err] => write, unsetenv_others: true)
    write.close
    serve(pid, output, listener, &block) if block
    text = output.read
    _, status = Process.wait2(pid)
    [text, status]
  ensure
    # A test that has failed leaves no template.
    Process.detach(pid) && Process.kill("KILL", pid) if pid && !status
    [listener, output].each(&:close)
  end

  # Calls a block with the id of a template when the template serves.
  def serve(pid, output, listener)
    ask = lambda do
      connection = Socket.new(:UNIX, :SEQPACKET)
      connection.connect(listener.local_address)
      connection.send("H\1", 0)
      assert_equal("H", receive(connection).text)
      connection.close
    end
    ask.call
    yield pid, output, ask
  end

  # Returns what a template writes that a signal ends, and its status.
  def end_template(code, *options, signal: "TERM")
    code = "require 'dayfly_template'; #{code}; DayflyTemplate.wait"
    run_ruby(code, *options, DAYFLY_TEMPLATE: "LISTENER") { |pid| Process.kill(signal, pid) }
  end

  def test_ordinary
    code = "require 'dayfly_template'; DayflyTemplate.register { p 1 }; DayflyTemplate.wait; " \
           "p ARGV, $LOADED_FEATURES.grep(/fiddle|json|socket/).size"
    assert_equal("[\"x\"]\n0\n", run_ruby(code)[0])
    assert_equal("[\"x\"]\n0\n", run_ruby(code, "--disable-gems")[0])
  end

  def test_signal
    [[], ["--disable-gems"]].each do |options|
      output, status = end_template("at_exit { p 1 }", *options)
      assert_equal("", output)
      assert_equal(Signal.list["TERM"], status.termsig)
    end
  end

  # No other file may have the number of a stream that is closed. The interpreter opens a pipe.
  def test_closed_stream
    ["", "STDIN.close; "].each do |change|
      code = "require 'dayfly_template'; #{change}DayflyTemplate.wait"
      run_ruby(code, DAYFLY_TEMPLATE: "LISTENER") do |pid,|
        assert_match(%r{\A(pipe:.*|/dev/null)\z}, File.readlink("/proc/#{pid}/fd/0"))
        Process.kill("TERM", pid)
      end
    end
  end

  def test_threads
    code = "require 'dayfly_template'; Thread.new { sleep }; DayflyTemplate.wait"
    text = "a template must have one thread, but 2 are running: start threads after wait"
    output, = run_ruby(code, DAYFLY_TEMPLATE: "LISTENER")
    assert_includes(output, "#{text} (RuntimeError)")
  end

  # The interpreter may keep the thread of an ended Thread for some seconds.
  def test_ended_threads
    assert_equal("", end_template("Thread.new { 1 }.join")[0])
  end

  def test_changed_arguments
    text = "ARGV or $0 has been changed: require dayfly_template before that (RuntimeError)"
    ["ARGV << 'y'", "ARGV.unshift('y')", "$0 = 'y'"].each do |change|
      code = "#{change}; require 'dayfly_template'; DayflyTemplate.wait"
      assert_includes(run_ruby(code, DAYFLY_TEMPLATE: "LISTENER")[0], text)
      assert_equal("", end_template(change)[0])
    end
  end

  # An exception ends a template, whatever the program would do about it.
  def test_exceptions
    rest = "at_exit { p 1 }; begin; DayflyTemplate.wait; rescue Exception; p 2; ensure; p 3; end"
    trap = "Signal.trap('ALRM')"
    output, status = end_template("#{trap} { raise 'an alarm' }; #{rest}", signal: "ALRM")
    assert_includes(output, "an alarm (RuntimeError)")
    refute_match(/^\d/, output)
    assert_equal(1, status.exitstatus)
    output, status = end_template("#{trap} { exit(3) }; #{rest}", signal: "ALRM")
    assert_equal("", output)
    assert_equal(3, status.exitstatus)
    rest = "catch(:out) { #{rest} }; p 4"
    output, status = end_template("#{trap} { throw :out }; #{rest}", signal: "ALRM")
    assert_equal("", output)
    assert_equal(1, status.exitstatus)
  end

  # A handler that returns changes nothing.
  def test_handler
    code = "count = 0; Signal.trap('ALRM') { $stdout.syswrite('1'); exit(5) if (count += 1) == 2 }"
    code = "require 'dayfly_template'; #{code}; DayflyTemplate.wait"
    output, status = run_ruby(code, DAYFLY_TEMPLATE: "LISTENER") do |pid, output, ask|
      Process.kill("ALRM", pid)
      assert_equal("1", output.readpartial(10))
      ask.call
      Process.kill("ALRM", pid)
    end
    assert_equal("1", output)
    assert_equal(5, status.exitstatus)
  end

  def test_no_socket
    code = "require 'dayfly_template'; DayflyTemplate.wait"
    ["", "x", "0", "77"].each do |value|
      text = "DAYFLY_TEMPLATE=#{value}: "
      assert_includes(run_ruby(code, DAYFLY_TEMPLATE: value)[0], text)
    end
  end

  def test_register
    code = "require 'dayfly_template'; p DayflyTemplate.register(method(:puts)).name; " \
           "DayflyTemplate.register"
    assert_match(/\A:puts\n.*register needs a block \(ArgumentError\)/, run_ruby(code)[0])
  end
end

# Why nothing can be tested here.
REASON =
  if !Process.uid.zero?
    "not root"
  elsif (Etc.uname[:release].split(".").first(2).map(&:to_i) <=> [6, 15]).negative?
    "Linux is older than 6.15"
  end

exit(Minitest.run(["--verbose", *ARGV])) if $PROGRAM_NAME == __FILE__

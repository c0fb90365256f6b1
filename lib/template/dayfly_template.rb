# frozen_string_literal: true

# Templates for dayfly: programs that have loaded their libraries before their containers exist.
#
# A template is a container in which a Ruby program has done its warm-up. For each new container,
# dayfly asks the template for a child, and the child becomes the program of that container. The new
# container thus has its program without the time that the libraries take to load.
#
#     require "json"            # the warm-up
#     require "net/http"
#     require "dayfly_template"
#     DayflyTemplate.wait
#     main
#
# wait returns in the child, where ARGV, ENV, the working directory, the user, the standard streams,
# the capabilities and the seccomp filter are those of the new container. In the template, wait
# serves requests and never returns. In an ordinary start, where the environment has no variable
# DAYFLY_TEMPLATE, wait returns at once and does nothing. The same program therefore works with and
# without a template.
#
# It needs Ruby 3.1 or later (CRuby, with fiddle), on x86_64 or aarch64.
#
# What a program must know:
#
# - The template must have one thread when it calls wait. Only the calling thread exists in a child,
#   and what the others held would stay locked. Start threads after wait. Since Ruby 3.2, Timeout
#   keeps a thread, which Net::HTTP uses, too: make no connections in the warm-up.
# - Children share what the warm-up made: open files and sockets, epoll descriptors, ids. Open
#   connections and event loops after wait. A directory that the warm-up leaves open is a way from
#   the container to the files of the template. DATA is such a file: read it before wait. The
#   warm-up must not read standard input.
# - What libraries do at a fork (Process._fork) is done in each child when the child is in its
#   container, before the callables of register. What C libraries do (pthread_atfork) may be left
#   out, and a library that notices a fork by the process id may not notice it: a child may have the
#   same id as the template, in another namespace.
# - The state of random numbers is new in each child for rand, Random.rand, SecureRandom, Tempfile
#   and OpenSSL. Objects of Random.new and other libraries must be seeded again by a callable that
#   is registered with register. A callable is called in the child right before wait returns.
# - All children of a template share the seed of Object#hash. Do not rely on it to be different in
#   each container, or secret.
# - Blocks of at_exit and finalizers of the warm-up run in each child at the end of its program.
#   They run neither in a child that has failed nor in the template.
# - Handlers of signals run in the template, too. One that raises an exception, throws or exits ends
#   the template. None may start processes there. A signal that a child gets before its container is
#   complete is delivered afterwards.
# - Variables that the interpreter reads at its start (RUBYLIB, RUBYOPT, LC_ALL ...) have their
#   effect in the template only. TZ has its effect in the child. A child has no variables that the
#   warm-up has set.
# - A template that was saved to disk (dayfly template create --save) may go on after a reboot, or
#   on another host. When it calls wait, it must have no socket, pipe, epoll, timer or other such
#   descriptor open, and no child process. Times of CLOCK_MONOTONIC, addresses and tokens that the
#   warm-up keeps may be those of another host: renew them by register.
# - Garbage is not collected while wait is at work. The template collects that of its requests.
# - $0 stays. /proc/self/cmdline, /proc/self/environ and /proc/self/exe are those of the template.
#
# Process.fork could not put a child into its cgroup at once, and would start a thread in it since
# Ruby 3.3. With two threads, a child could not enter its container. So the child is made by
# clone3(2), or by fork(3) of libc, and the class Interpreter does what Process.fork would do.
module DayflyTemplate
  VARIABLE = "DAYFLY_TEMPLATE"

  # The arguments as the interpreter got them. A warm-up may change ARGV later.
  ARGUMENTS = ARGV.map { |word| word.b.freeze }.freeze

  # The whole command line. An assignment to $0 changes it.
  COMMAND = ENV.key?(VARIABLE) ? File.binread("/proc/self/cmdline").split("\0", -1)[0...-1] : []

  @after = []

  class << self
    # The callables that a child calls right before wait returns, in this order.
    attr_reader :after

    # Registers a block, or an object with the method call, for each child to call right before wait
    # returns. Returns it.
    def register(function = nil, &block)
      function ||= block
      raise ArgumentError, "register needs a block" unless function.respond_to?(:call)

      after << function
      function
    end

    # Serves requests in a template. Returns in a child, and at once in an ordinary start.
    #
    # Raises RuntimeError in a template that has several threads or no usable socket, or that has
    # changed ARGV before it required this file.
    def wait
      return unless ENV.key?(VARIABLE)

      # An ordinary start needs none of these, and loading them takes several milliseconds. A child
      # must not load them: it may have another root directory then.
      require "fiddle"
      require "json"
      require "rbconfig"
      require "socket"
      Template.new(ENV.delete(VARIABLE)).serve
      after.each(&:call)
      nil
    end
  end

  VERSION = 1
  INTO_CGROUP = 1
  FIRST_IS_UNIFIED = 2
  HAS_FILTER = 4

  # A peer that connects and then says nothing delays all others: the template serves one at a time.
  PATIENCE = 1

  # A template that waits to be saved ends if it was neither saved nor restored after this time.
  SAVED_WITHIN = 60

  # The id of a template's program in its PID namespace. Those of its children are smaller.
  PROGRAM = 300

  # The runtime gives up a child after this time.
  LAST_WORDS = 5

  # An ended thread of Ruby 3.1 or 3.2 stays for 3 s: it waits for another block to run.
  END_OF_THREADS = 5

  # The template collects its garbage after so many requests.
  REQUESTS_PER_COLLECTION = 200

  # As much of passwd(5) is read.
  LONGEST_PASSWD = 1 << 20

  # As much of an error is sent.
  LONGEST_TEXT = 251

  STREAMS = [STDIN, STDOUT, STDERR].freeze
  SYS_ADMIN = 1 << 21
  CLONE_NEWPID = 0x20000000
  NAMESPACES = {
    0x00000080 => "time",
    0x00020000 => "mnt",
    0x02000000 => "cgroup",
    0x04000000 => "uts",
    0x08000000 => "ipc",
    0x10000000 => "user",
    CLONE_NEWPID => "pid",
    0x40000000 => "net",
  }.freeze

  # A step that failed, as the runtime is to see it.
  class Failure < StandardError
    attr_reader :number

    def initialize(number, text)
      super(text)
      @number = number
    end
  end

  # What most of the classes need.
  module Steps
    private

    # Calls a block, and adds the name of the step to its error.
    def attempt(step)
      yield
    rescue SystemCallError => error
      raise Failure.new(error.errno, step)
    end

    def now
      Process.clock_gettime(Process::CLOCK_MONOTONIC)
    end
  end

  # System calls.
  #
  # They are made by their numbers: Ruby lacks most of them, and does more than the call in others.
  # Each keeps the lock of the interpreter, without which a clone would be unsafe.
  class System
    include Steps

    NUMBERS = {
      "x86_64" => {
        accept4: 288, capset: 126, chdir: 80, clone3: 435, close: 3, close_range: 436, dup3: 292,
        fcntl: 72,
        get_robust_list: 274, getcwd: 79, getpid: 39, gettid: 186, keyctl: 250, kill: 62,
        ppoll: 271, prctl: 157, pread64: 17, recvfrom: 45, recvmsg: 47, rt_sigaction: 13,
        rt_sigprocmask: 14, rt_sigtimedwait: 128,
        seccomp: 317, sendto: 44, set_robust_list: 273, setgroups: 116, setns: 308, setresgid: 119,
        setresuid: 117, unshare: 272, wait4: 61, write: 1,
      },
      "aarch64" => {
        accept4: 242, capset: 91, chdir: 49, clone3: 435, close: 57, close_range: 436, dup3: 24,
        fcntl: 25,
        get_robust_list: 100, getcwd: 17, getpid: 172, gettid: 178, keyctl: 219, kill: 129,
        ppoll: 73, prctl: 167, pread64: 67, recvfrom: 207, recvmsg: 212, rt_sigaction: 134,
        rt_sigprocmask: 135, rt_sigtimedwait: 137, seccomp: 277, sendto: 206,
        set_robust_list: 99, setgroups: 159,
        setns: 268, setresgid: 149, setresuid: 147, unshare: 97, wait4: 260, write: 64,
      },
    }.freeze

    # The kernel may be too old for it, or the template may not move a process to this cgroup. The
    # child can then still move itself by the files that the runtime has opened.
    CANNOT_CLONE_INTO = [
      Errno::EACCES, Errno::EPERM, Errno::ENOENT, Errno::EBUSY, Errno::EOPNOTSUPP, Errno::ENOSYS,
    ].freeze

    MSG_DONTWAIT = 0x40
    MSG_NOSIGNAL = 0x4000
    MSG_CMSG_CLOEXEC = 0x40000000
    MSG_TRUNC = 0x20
    MSG_CTRUNC = 0x8
    SOCK_CLOEXEC = 0x80000
    SOL_SOCKET = 1
    SCM_RIGHTS = 1

    # SCM_MAX_FD, and a header.
    CONTROL_SIZE = 16 + (253 * 4 + 7) / 8 * 8

    BUFFER_SIZE = 1 << 17

    def initialize
      machine = RbConfig::CONFIG["host_cpu"]
      @numbers = NUMBERS[machine]
      unless @numbers && Fiddle::SIZEOF_LONG == 8
        raise "templates do not work on #{machine}"
      end

      long = Fiddle::TYPE_LONG
      @syscall = function("syscall", [long] * 7, long)
      @fork = function("fork", [], Fiddle::TYPE_INT)
      @tzset = function("tzset", [], Fiddle::TYPE_VOID)
      @open_stream = function("rb_io_fdopen", [Fiddle::TYPE_INT, Fiddle::TYPE_INT, long], long)
      @after_fork = function("rb_thread_atfork", [], Fiddle::TYPE_VOID)
      @buffer = Fiddle::Pointer.malloc(BUFFER_SIZE)
      @address = @buffer.to_i
      @thread_id = thread_id_address
      @robust_list = find_robust_list
    end

    # Makes a system call. Returns its result, or raises its error.
    def call(name, *arguments)
      result = invoke(name, *arguments)
      raise SystemCallError.new(nil, Fiddle.last_error) if result.negative?

      result
    end

    # Makes a system call. Returns a negative number if it fails.
    def invoke(name, one = 0, two = 0, three = 0, four = 0, five = 0, six = 0)
      @syscall.call(@numbers[name], one, two, three, four, five, six)
    end

    # Copies bytes into the buffer. Returns their address.
    def store(bytes, offset = 0)
      raise Errno::E2BIG if offset + bytes.bytesize > BUFFER_SIZE

      @buffer[offset, bytes.bytesize] = bytes
      @address + offset
    end

    def close(descriptor)
      call(:close, descriptor)
    end

    def prctl(option, *arguments)
      call(:prctl, option, *arguments)
    end

    # Makes a descriptor wait, whatever its maker wanted.
    def make_blocking(descriptor)
      call(:fcntl, descriptor, 4) # F_SETFL
    end

    def accept(listener)
      call(:accept4, listener, 0, 0, SOCK_CLOEXEC)
    end

    # Waits until a descriptor is readable. Returns false after so many seconds.
    def readable?(descriptor, seconds)
      deadline = now + seconds
      loop do
        rest = [deadline - now, 0].max
        store([rest.floor, (rest % 1 * 1e9).floor].pack("q2"), 8)
        return true if poll(descriptor, @address + 8, 0).positive?
        return false if rest.zero?
      end
    end

    # Waits until a descriptor is readable, or a signal of those comes that the mask lets through.
    # Returns false in the second case.
    def await(descriptor, mask)
      store(mask, 8)
      poll(descriptor, 0, @address + 8).positive?
    end

    # Receives a message and its descriptors. An empty message is the end of the connection.
    def receive_message(connection, size)
      header = [0, 0, @address + 64, 1, @address + 256, CONTROL_SIZE, 0].pack("QQQQQQQ")
      store(header)
      store([@address + 4096, size].pack("QQ"), 64)
      length = call(:recvmsg, connection, @address, MSG_CMSG_CLOEXEC)
      control, flags = @buffer[40, 16].unpack("QL")
      descriptors = control.zero? ? [] : read_control(@buffer[256, control])
      if flags.anybits?(MSG_TRUNC | MSG_CTRUNC)
        descriptors.each { |descriptor| close(descriptor) }
        raise Failure.new(Errno::EBADMSG::Errno, "recvmsg: the message is too long")
      end
      [@buffer[4096, length], descriptors]
    end

    # Receives a message. Returns an empty one if the connection has ended or failed.
    def receive(connection, size)
      loop do
        length = invoke(:recvfrom, connection, @address, size)
        return @buffer[0, length] if length.positive?
        return "" if length.zero? || Fiddle.last_error != Errno::EINTR::Errno
      end
    end

    def send_message(connection, message, flags = 0)
      call(:sendto, connection, store(message), message.bytesize, MSG_NOSIGNAL | flags)
    end

    # Reads a file from its beginning, wherever its offset is.
    def read_all(descriptor)
      data = "".b
      loop do
        length = call(:pread64, descriptor, @address, BUFFER_SIZE, data.bytesize)
        return data if length.zero?

        data << @buffer[0, length]
      end
    end

    def change_directory(path)
      call(:chdir, store("#{path}\0"))
    end

    # Verifies that the working directory lies inside the root.
    #
    # libc may search the path of a directory outside the root by itself. The kernel says what it
    # knows.
    def verify_directory
      call(:getcwd, @address, 4096)
      return if @buffer[0, 1] == "/"

      raise Failure.new(
        Errno::EACCES::Errno,
        "getcwd: current working directory is outside of container mount namespace root " \
        "-- possible container breakout detected",
      )
    end

    # Verifies that the process has one thread: what limits a thread does not limit others.
    def verify_one_thread
      call(:unshare, 0x10000) # CLONE_THREAD, which changes nothing
    end

    def change_groups(groups)
      call(:setgroups, groups.size, store(groups.pack("L*")))
    end

    # Joins a session keyring of this name.
    def join_keyring(name)
      call(:keyctl, 1, store("#{name}\0")) # KEYCTL_JOIN_SESSION_KEYRING
    end

    # Sets the capabilities of the process.
    def change_capabilities(*sets)
      header = [0x20080522, 0].pack("L2") # _LINUX_CAPABILITY_VERSION_3
      low = sets.map { |mask| mask & 0xFFFFFFFF }
      high = sets.map { |mask| mask >> 32 & 0xFFFFFFFF }
      call(:capset, store(header), store((low + high).pack("L6"), 8))
    end

    # Loads a seccomp filter.
    def load_filter(flags, instructions)
      code = store(instructions, 16)
      program = store([instructions.bytesize / 8, code].pack("Sx6Q"))
      # SECCOMP_SET_MODE_FILTER. Some flags make the call return a value.
      raise Errno::EINVAL unless call(:seccomp, 1, flags, program).zero?
    end

    # Blocks all signals. Returns the mask as it was.
    def block_signals
      call(:rt_sigprocmask, 2, store("\xFF".b * 8), @address + 8, 8) # SIG_SETMASK
      @buffer[8, 8]
    end

    def restore_signals(mask)
      call(:rt_sigprocmask, 2, store(mask), 0, 8)
    end

    # Sets what the kernel does with a signal. Returns what it has done so far.
    def change_action(signal, action)
      call(:rt_sigaction, signal, store(action), @address + 32, 8)
      @buffer[32, 32]
    end

    # Clones the process into a cgroup. Returns nil where only fork can be used.
    def clone_into(cgroup)
      clone(0x200000000, 0, 0, cgroup) # CLONE_INTO_CGROUP
    end

    # Clones the process. The clone has this id, or another where only fork can be used.
    def clone_as(pid)
      clone(0, store([pid].pack("l"), 128), 1, 0) || fork_process
    end

    def clone(flags, ids, count, cgroup)
      return unless @thread_id

      # CLONE_CHILD_SETTID | CLONE_CHILD_CLEARTID, as fork of libc has them: with the id of the
      # template, raise(3) and the mutexes of libc would not work. 17: SIGCHLD.
      flags |= 0x01000000 | 0x00200000
      store([flags, 0, @thread_id, 0, 17, 0, 0, 0, ids, count, cgroup].pack("Q11"))
      pid = invoke(:clone3, @address, 88)
      if pid.negative?
        error = SystemCallError.new(nil, Fiddle.last_error)
        return if CANNOT_CLONE_INTO.include?(error.class)

        raise error
      end
      # The kernel forgets the list at a clone. fork of libc tells it again, too.
      invoke(:set_robust_list, *@robust_list) if pid.zero? && @robust_list
      pid
    end

    # Waits for any signal, all of which are blocked. Returns its number.
    def await_signal
      number = invoke(:rt_sigtimedwait, store("\xFF".b * 8), 0, 0, 8) until number&.positive?
      number
    end

    # Reaps a child. Returns its id and status; 0 if none has ended, a negative id without children.
    def reap
      pid = invoke(:wait4, -1, @address, 1) # WNOHANG
      [pid, @buffer[0, 4].unpack1("l")]
    end

    # Forks the process by libc, and not by the interpreter.
    def fork_process
      pid = @fork.call
      raise SystemCallError.new(nil, Fiddle.last_error) if pid.negative?

      pid
    end

    # Does what the interpreter does in the child of a fork.
    def after_fork
      @after_fork.call
    end

    # Makes libc read the time zone.
    def read_zone
      @tzset.call
    end

    # Returns an IO that knows whether its file is a terminal. IO.for_fd does not find this out.
    def open_stream(descriptor, flags)
      Fiddle::Pointer.new(@open_stream.call(descriptor, flags, 0)).to_value
    end

    private

    def function(name, arguments, result)
      address = Fiddle::Handle::DEFAULT[name]
      Fiddle::Function.new(address, arguments, result, name: name, need_gvl: true)
    end

    def poll(descriptor, time, mask)
      event = store([descriptor, 1, 0].pack("lss")) # POLLIN
      invoke(:ppoll, event, 1, time, mask, 8)
    end

    def read_control(control)
      descriptors = []
      while control.bytesize >= 16
        length, level, kind = control.unpack("Qll")
        if level == SOL_SOCKET && kind == SCM_RIGHTS
          descriptors.concat(control[16...length].unpack("l*"))
        end
        control = control[((length + 7) / 8 * 8)..] || ""
      end
      descriptors
    end

    # Returns where libc keeps the thread's id, or nil if that is not known.
    #
    # With musl, the kernel knows the address of a lock instead: a clone must not write to it.
    def thread_id_address
      return if invoke(:prctl, 40, @address).negative? # PR_GET_TID_ADDRESS

      address = @buffer[0, 8].unpack1("Q")
      return if address.zero?

      found = Fiddle::Pointer.new(address)[0, 4].unpack1("l")
      address if found == call(:gettid)
    end

    # Returns the address and the size of the list of robust mutexes, or nil.
    def find_robust_list
      return if invoke(:get_robust_list, 0, @address, @address + 8).negative?

      found = @buffer[0, 16].unpack("Q2")
      found unless found[0].zero?
    end
  end

  # What the interpreter does when a process forks, for a child that it has not forked itself.
  #
  # Process.fork (process.c) stops the timer, forks, and starts the timer again in both processes.
  # In the child it then calls rb_thread_atfork, which makes the locks new, forgets other threads,
  # and seeds rand. Here, the template stops the timer once and for all before its first child, so
  # each child is as Process.fork would leave it at the fork itself, and has the rest to do:
  #
  # - Before Ruby 3.3, the timer is one of the kernel (timer_create(2)), together with descriptors
  #   that wake the interpreter at a signal. The interpreter starts it where the process has
  #   another id than the one that has made the descriptors. A child does so at once.
  # - Since Ruby 3.3, the timer is a thread. rb_thread_atfork starts it, so a child calls that
  #   last: with two threads, a process could not enter the mount namespace of its container.
  #   Meanwhile the child lacks nothing, as the thread only serves several threads of Ruby.
  #
  # An exec that fails stops the timer and starts it again. It does not start here: timer_create
  # exceeds a limit of the process, or the kernel refuses the thread (clone(2): EINVAL), because the
  # children of the process are to be in another PID namespace.
  #
  # The interpreter cannot stop a timer that has not been started. So the template must neither exec
  # nor fork by itself any more, nor end in the ordinary way.
  class Interpreter
    # No file can have this name.
    NOTHING = "/#{"-" * 300}"

    def self.for(system)
      is_new = (RUBY_VERSION.split(".").map(&:to_i) <=> [3, 3]) >= 0
      (is_new ? WithThread : WithTimer).new(system)
    end

    def initialize(system)
      @system = system
    end

    # Stops the timer and starts it again.
    def restart_timer
      Process.exec([NOTHING, NOTHING])
    rescue SystemCallError
      nil
    end
    private :restart_timer

    # Before Ruby 3.3.
    class WithTimer < self
      # The threads that are the interpreter's own.
      def threads
        0
      end

      def stop_timer(_own_namespace)
        soft, hard = Process.getrlimit(:SIGPENDING)
        verbosity = $VERBOSE
        begin
          Process.setrlimit(:SIGPENDING, 0, hard)
          # The interpreter would warn that it has no timer.
          $VERBOSE = nil
          restart_timer
        ensure
          $VERBOSE = verbosity
          Process.setrlimit(:SIGPENDING, soft, hard)
        end
        verify
        become_template
      end

      # Notes the process id of the template, whose timer has been stopped.
      def become_template
        @template = @system.call(:getpid)
      end

      def begin_child
        if @system.call(:getpid) == @template
          # The interpreter would take the timer of the template for that of the child.
          raise Failure.new(
            Errno::ENOTSUP::Errno, "Ruby #{RUBY_VERSION}: the child has the id of the template",
          )
        end
        restart_timer
        @system.after_fork
      end

      def complete_child; end

      private

      # Verifies that there is no timer, where the kernel says so: a child would abort.
      def verify
        timers = File.read("/proc/self/timers")
        raise "the timer of the interpreter does not stop" if timers.include?("signal: 26/")
      rescue SystemCallError
        nil
      end
    end

    # Ruby 3.3 and later.
    class WithThread < self
      def threads
        1
      end

      def stop_timer(own_namespace)
        @system.call(:unshare, CLONE_NEWPID)
        begin
          restart_timer
        ensure
          @system.call(:setns, own_namespace, CLONE_NEWPID)
        end
      end

      def become_template; end

      # The interpreter notes the process id, and forgets it only in a fork of its own.
      def begin_child
        pid = @system.call(:getpid)
        return if Process.pid == pid

        ProcessId.take(pid)
      end

      def complete_child
        @system.after_fork
      end
    end

    # Process.pid and $$ of a child whose template has asked for its own.
    module ProcessId
      ORIGINAL = Process.method(:pid)

      def self.take(pid)
        $dayfly_template_pid = pid
        alias $$ $dayfly_template_pid
        Process.singleton_class.prepend(self)
      end

      def pid
        $dayfly_template_pid
      end

      # These are all ways in which the interpreter forks and goes on. It has forgotten the id then.
      def _fork
        super.tap { |pid| $dayfly_template_pid = ORIGINAL.call if pid.zero? }
      end

      def daemon(...)
        super.tap { $dayfly_template_pid = ORIGINAL.call }
      end
    end
  end

  # A request for a child: its connection and its descriptors.
  class Request
    attr_reader :connection, :descriptors, :namespace, :body, :stub, :filter, :cgroup, :procs

    def initialize(system, connection)
      @system = system
      @connection = connection
      @descriptors = []
    end

    # Receives the request. Returns false if there is none: the peer has gone or only asked.
    def receive
      unless @system.readable?(connection, PATIENCE)
        raise Failure.new(Errno::ETIMEDOUT::Errno, "recvmsg: no message")
      end

      message, @descriptors = @system.receive_message(connection, 16)
      return false if message.empty? && descriptors.empty?

      if message == [0x48, VERSION].pack("CC")
        # The runtime asks whether the warm-up is over.
        @system.send_message(connection, "H", System::MSG_DONTWAIT)
        return false
      end
      read(message)
      true
    end

    def first_is_unified?
      @flags.anybits?(FIRST_IS_UNIFIED)
    end

    # Closes the connection and the descriptors in the template.
    def close
      [connection, *descriptors].each { |descriptor| @system.close(descriptor) }
    end

    private

    def read(message)
      kind, version, @flags, count = message.unpack("C4")
      if kind != 0x46 || version != VERSION
        raise Failure.new(Errno::EPROTO::Errno, "recvmsg: unknown message or version")
      end
      if message.bytesize != 4
        raise Failure.new(Errno::EBADMSG::Errno, "recvmsg: message F of a wrong length")
      end
      if @flags.anybits?(~(INTO_CGROUP | FIRST_IS_UNIFIED | HAS_FILTER))
        raise Failure.new(Errno::EPROTO::Errno, "recvmsg: unknown flags")
      end

      take(count)
    end

    def take(count)
      has_filter = @flags.anybits?(HAS_FILTER)
      has_cgroup = @flags.anybits?(INTO_CGROUP)
      wanted = 3 + (has_filter ? 1 : 0) + (has_cgroup ? 1 : 0) + count
      if descriptors.size != wanted || (first_is_unified? && count.zero?)
        raise Failure.new(Errno::EBADMSG::Errno, "recvmsg: message F with wrong descriptors")
      end

      @namespace, @body, @stub, *rest = descriptors
      @filter = rest.shift if has_filter
      @cgroup = rest.shift if has_cgroup
      @procs = rest
    end
  end

  # The process that has done the warm-up.
  class Template
    include Steps

    attr_reader :system, :interpreter, :program, :listener, :own_namespace, :on_child_exit,
                :signals, :dumpable, :terminals
    attr_accessor :expects_container

    def initialize(number)
      unless RUBY_ENGINE == "ruby" && Process.respond_to?(:_fork)
        raise "templates do not work with #{RUBY_DESCRIPTION}"
      end

      @system = System.new
      @interpreter = Interpreter.for(@system)
      verify_one_thread(@interpreter.threads)
      @listener = open_listener(number)
      @program = Program.new
      complete_streams
      @terminals = STREAMS.map { |stream| !stream.closed? && stream.tty? }
      # The template returns to its own PID namespace after each child.
      @own_namespace = IO.sysopen("/proc/self/ns/pid")
      @dumpable = @system.prctl(3) == 1 ? 1 : 0 # PR_GET_DUMPABLE
      @expects_container = false
      @is_child = false
      @requests = 0
      # The kernel reaps the children (SIGCHLD, SIG_IGN). What a program in its warm-up wanted is
      # for the children.
      @on_child_exit = @system.change_action(17, [1, 0, 0, 0].pack("Q4"))
      collect_garbage
      @interpreter.stop_timer(@own_namespace)
      verify_one_thread(0)
      wait_on_disk if @is_saved
    end

    # Serves requests for ever. Returns in each child, when it is the program of its container.
    def serve
      ends = true
      # Signals come only while the template waits for a request. So none comes to a child early.
      @signals = system.block_signals
      @own_fork = replace_fork
      nil until serve_one
      ends = false
    rescue Exception => error
      # What libraries do at a fork has failed: the program is in its container and sees this.
      ends = !@is_child
      raise if @is_child

      finish(error)
    ensure
      # The handler of a signal may also throw.
      Process.exit!(1) if ends
    end

    private

    # Stops the collection of garbage, after one that leaves the memory of the warm-up as it is to
    # stay. Objects that have survived a few collections are not looked at by the shorter ones.
    def collect_garbage
      if Process.respond_to?(:warmup)
        Process.warmup
      else
        4.times { GC.start }
      end
      @collects = !GC.disable
    end

    def verify_one_thread(own)
      deadline = now + END_OF_THREADS
      loop do
        count = Dir.children("/proc/self/task").size - own
        others = Thread.list.size
        return if count == 1 && others == 1

        if others > 1 || now > deadline
          raise "a template must have one thread, but #{[count, others].max} are running: " \
                "start threads after wait"
        end
        sleep(0.02)
      end
    end

    # Takes the socket that the runtime has passed on.
    def open_listener(number)
      begin
        listener = Socket.for_fd(Integer(number, 10))
      rescue ArgumentError, SystemCallError => error
        raise "#{VARIABLE}=#{number}: #{error.message}"
      end
      listener.autoclose = false
      domain, type, listens = [39, 3, 30].map do |option| # SO_DOMAIN, SO_TYPE, SO_ACCEPTCONN
        listener.getsockopt(System::SOL_SOCKET, option).int
      end
      unless [domain, type] == [Socket::AF_UNIX, Socket::SOCK_SEQPACKET]
        raise "#{VARIABLE}=#{number}: not a socket of dayfly"
      end

      # A socket that does not listen leads to the runtime, which saves the template.
      @is_saved = listens.zero?

      listener.close_on_exec = true
      # Without this, accept would fail where the runtime has set O_NONBLOCK.
      system.make_blocking(listener.fileno)
      listener.fileno
    end

    # Waits until the template was saved, and restored from the images.
    #
    # Nothing that depends on the host may be open meanwhile. A restore makes the socket of requests
    # of the socket that stays. Returns in a child that serves requests: the process that is
    # restored is the first of its PID namespace, and would end all containers with it.
    def wait_on_disk
      # Even /dev may be missing after the restore.
      root = IO.sysopen("/")
      3.times { |number| system.call(:dup3, root, number, 0) }
      [root, own_namespace].each { |descriptor| system.close(descriptor) }
      runtime = system.call(:fcntl, listener, 1030, 3) # F_DUPFD_CLOEXEC
      socket = Socket.for_fd(listener)
      socket.autoclose = false
      stays = Socket.new(:UNIX, :SEQPACKET)
      # An abstract name that the kernel chooses.
      stays.bind([Socket::AF_UNIX].pack("S"))
      stays.listen(1)
      system.call(:dup3, stays.fileno, listener, 0x80000) # O_CLOEXEC
      stays.close
      name = socket.getsockname
      system.send_message(runtime, ["P", *own_descriptors].pack("aL<*"))
      system.close(runtime)
      # After a restore, the runtime connects at once.
      is_called = true
      while socket.getsockname == name
        Process.exit!(1) unless is_called
        is_called = system.readable?(listener, SAVED_WITHIN)
      end
      begin_again
    end

    # Returns the descriptors of the interpreter itself.
    def own_descriptors
      Dir.children("/proc/self/fd").map(&:to_i).select do |number|
        IO.for_fd(number, autoclose: false)
        false
      rescue ArgumentError
        true
      rescue SystemCallError
        false
      end
    end

    # Makes the process that serves requests after a restore. The caller reaps.
    def begin_again
      mask = system.block_signals
      system.change_action(17, [0, 0, 0, 0].pack("Q4")) # SIGCHLD, SIG_DFL
      pid = system.clone_as(PROGRAM)
      reap(pid) unless pid.zero?
      system.change_action(17, [1, 0, 0, 0].pack("Q4"))
      system.restore_signals(mask)
      @own_namespace = IO.sysopen("/proc/self/ns/pid")
      @interpreter.become_template
    end

    # Passes signals on to the template, and reaps, until no process is left.
    def reap(program)
      system.call(:close_range, 0, 0xFFFFFFFF, 0)
      system.prctl(15, system.store("reaper\0")) # PR_SET_NAME
      code = 0
      loop do
        number = system.await_signal
        next system.invoke(:kill, program, number) unless number == 17

        loop do
          pid, status = system.reap
          Process.exit!(code) if pid.negative?
          break if pid.zero?

          code = status.nobits?(0x7F) ? status >> 8 & 0xFF : 128 + (status & 0x7F) if pid == program
        end
      end
    end

    # Opens /dev/null for each standard stream that is closed, and flushes the others.
    #
    # Descriptors that arrive later must not get the numbers 0 to 2. What is not flushed now would
    # be written again by each child.
    def complete_streams
      descriptor = IO.sysopen("/dev/null", File::RDWR) until descriptor && descriptor > 2
      system.close(descriptor)
      [$stdout, $stderr, STDOUT, STDERR].each do |stream|
        stream.flush
      rescue IOError, SystemCallError
        nil
      end
    end

    # Makes libraries do in a child what they do at a fork, when the child is in its container.
    #
    # They prepend modules to Process whose method _fork calls that of the interpreter. Returns the
    # interpreter's own.
    def replace_fork
      own = Process.method(:_fork)
      while (inner = own.super_method)
        own = inner
      end
      define_fork(method(:make_child).to_proc)
      own.unbind
    end

    def define_fork(function)
      verbosity = $VERBOSE
      # It would warn that there is such a method.
      $VERBOSE = nil
      Process.singleton_class.define_method(:_fork, function)
    ensure
      $VERBOSE = verbosity
    end

    # Serves a request. Returns true in a child.
    def serve_one
      connection = accept
      return false unless connection

      @request = Request.new(system, connection)
      begin
        return true if @request.receive && start
      rescue StandardError => error
        raise if @is_child

        send_failure(error)
      end
      @request.close
      collect_again
      false
    end

    def accept
      return unless system.await(listener, signals)

      system.accept(listener)
    rescue Errno::EBADF, Errno::EINVAL, Errno::ENOTSOCK
      raise
    rescue SystemCallError
      # Such as too many open files on the host. Trying again at once would use a whole CPU.
      sleep(0.01)
      nil
    end

    # Makes a child in the PID namespace of its container. Returns true in the child.
    def start
      attempt("setns pid namespace") { system.call(:setns, @request.namespace, CLONE_NEWPID) }
      begin
        Process._fork.zero?
      ensure
        go_back unless @is_child
      end
    end

    # Makes the next children of the template members of its own PID namespace.
    def go_back
      system.call(:setns, own_namespace, CLONE_NEWPID)
    rescue SystemCallError => error
      # What the template starts next would be in a container of somebody else.
      STDERR.write("dayfly_template: setns own pid namespace: #{error.message}\n")
      Process.exit!(1)
    end

    # Is Process._fork in the template.
    def make_child
      pid = clone_process
      return pid unless pid.zero?

      @is_child = true
      become_program
      0
    end

    def clone_process
      if @request.cgroup
        pid = attempt("clone3") { system.clone_into(@request.cgroup) }
        # The child is already in this cgroup.
        @request.procs.shift if pid == 0 && @request.first_is_unified?
        return pid if pid
      end
      attempt("fork") { system.fork_process }
    end

    # Makes the child the program of its container, or ends it.
    def become_program
      is_complete = false
      begin
        define_fork(@own_fork)
        Child.new(self, @request).become
        GC.enable if @collects
        is_complete = true
      rescue Exception => error
        send_failure(error)
        await_end if expects_container
      ensure
        # Nothing may reach the program before its container is complete: a program could catch an
        # exception and go on with the rights of the template. The handler of a signal may raise
        # another exception above, or throw.
        Process.exit!(1) unless is_complete
      end
    end

    # Tells the runtime what failed. The runtime may be gone.
    def send_failure(error)
      number = error.errno if error.is_a?(SystemCallError)
      number = error.number if error.is_a?(Failure)
      text = error.is_a?(Failure) ? error.message : error.inspect
      text = text.dup.force_encoding(Encoding::UTF_8).byteslice(0, LONGEST_TEXT).scrub("?")
      message = ["E", number || Errno::EIO::Errno].pack("al<") + text.b
      system.send_message(@request.connection, message[0, 5 + LONGEST_TEXT], System::MSG_DONTWAIT)
    rescue SystemCallError
      nil
    end

    # Waits until the runtime has closed the connection, or kills the process.
    #
    # If the process ended at once, the runtime could not send message C, and would not read what
    # has failed.
    def await_end
      connection = @request.connection
      nil while system.readable?(connection, LAST_WORDS) && !system.receive(connection, 64).empty?
    end

    # Collects the garbage of the requests.
    def collect_again
      @requests += 1
      return unless @requests >= REQUESTS_PER_COLLECTION

      @requests = 0
      GC.start(full_mark: false)
    end

    # Ends the template as an exception would that nobody rescues.
    def finish(error)
      case error
      when SystemExit
        Process.exit!(error.status)
      when SignalException
        Signal.trap(error.signo, "SYSTEM_DEFAULT")
        system.restore_signals("\0".b * 8)
        Process.kill(error.signo, Process.pid)
      end
      STDERR.write(error.full_message(highlight: false))
    end
  end

  # The interpreter and the script of the template.
  class Program
    def initialize
      # With -e, the last of these words is the program itself.
      count = COMMAND.size - ARGUMENTS.size
      if count < 2 || COMMAND[count..] != ARGUMENTS
        raise "ARGV or $0 has been changed: require dayfly_template before that"
      end

      @own = COMMAND[0...count]
    end

    # Verifies that a command line starts the same script by the same interpreter.
    def verify(arguments)
      wanted = arguments[0...@own.size]
      return if wanted == @own

      raise Failure.new(
        Errno::ENOEXEC::Errno,
        "the program is #{wanted.join(" ")}, but the template's is #{@own.join(" ")}",
      )
    end

    # Makes ARGV that of a verified command line.
    def assume(arguments)
      encoding = Encoding.find("locale")
      ARGV.replace(arguments[@own.size..].map { |word| word.dup.force_encoding(encoding).freeze })
    end
  end

  # What the program of a container is like. It is all read before the child does any of it.
  class Plan
    attr_reader :arguments, :environment, :directory, :umask, :uid, :gid, :groups, :keyring,
                :no_new_privileges, :home_of, :bounding, :ambient, :sets, :filter, :filter_flags,
                :streams, :namespaces

    def initialize(body, instructions)
      @filter = instructions
      # What message C brings.
      @streams = []
      @namespaces = []
      begin
        read(JSON.parse(body))
      rescue JSON::ParserError, ArgumentError, EncodingError, KeyError, RangeError,
             TypeError => error
        raise Failure.new(Errno::EBADMSG::Errno, "body: #{error.message}")
      end
      return unless @filter_flags.nil? != @filter.nil?

      raise Failure.new(Errno::EBADMSG::Errno, "recvmsg: message F with a wrong filter")
    end

    # Reads message C: the container, which is complete now.
    def enter(message, descriptors)
      Process.exit!(1) if message.empty? && descriptors.empty?
      if message[0] != "C" || message.bytesize % 4 != 1
        raise Failure.new(Errno::EPROTO::Errno, "recvmsg: unknown message")
      end

      kinds = message.unpack("xL<*")
      if descriptors.size != 3 + kinds.size
        raise Failure.new(Errno::EBADMSG::Errno, "recvmsg: message C with wrong descriptors")
      end

      @streams = descriptors.shift(3)
      @namespaces = descriptors.zip(kinds)
    end

    private

    def read(body)
      check(body, Hash)
      @arguments = words(body.fetch("args"))
      @environment = read_environment(words(body.fetch("env")))
      @directory = word(body.fetch("cwd"))
      @umask = number(body.fetch("umask"))
      @uid = id(body.fetch("uid"))
      @gid = id(body.fetch("gid"))
      @groups = body.fetch("groups")
      check(@groups, Array).each { |group| id(group) } if @groups
      @no_new_privileges = body.fetch("noNewPrivileges")
      @keyring = body.fetch("keyring") && word(body.fetch("keyring"))
      @home_of = body.fetch("homeOf") && number(body.fetch("homeOf"))
      read_capabilities(body.fetch("capabilities"))
      seccomp = body.fetch("seccomp")
      @filter_flags = number(check(seccomp, Hash).fetch("flags")) if seccomp
    end

    def check(value, type)
      raise TypeError, "#{value.class} in place of #{type}" unless value.is_a?(type)

      value
    end

    def number(value)
      check(value, Integer)
    end

    # The kernel takes the largest number for no change.
    def id(value)
      raise RangeError, "#{value} is no id" unless number(value).between?(0, 0xFFFFFFFE)

      value
    end

    def word(value)
      check(value, String).b
    end

    def words(values)
      check(values, Array).map { |value| word(value) }
    end

    # Ruby itself skips entries without a value, and uses the first of several.
    def read_environment(entries)
      entries.each_with_object({}) do |entry, environment|
        name, separator, value = entry.partition("=")
        environment[name] ||= value unless name.empty? || separator.empty?
      end
    end

    def read_capabilities(body)
      @ambient = 0
      if body
        check(body, Hash)
        @bounding = number(body.fetch("bounding"))
        @ambient = number(body.fetch("ambient"))
        @sets = %w[effective permitted inheritable].map { |name| number(body.fetch(name)) }
      elsif uid != 0
        # An execve would take them from a user other than root.
        @sets = [0, 0, 0]
      end
    end
  end

  # The process that becomes the program of a new container.
  class Child
    include Steps

    def initialize(template, request)
      @template = template
      @request = request
      @system = template.system
      @connection = request.connection
      @stub = request.stub
    end

    # Becomes the program. Returns when the new container says so.
    def become
      enter_cgroups
      send_message("B")
      @template.expects_container = true
      @template.interpreter.begin_child
      @plan = read_plan
      leave_template
      prepare
      attempt("setsid") { Process.setsid }
      @system.make_blocking(@connection)
      message, descriptors = attempt("recvmsg: C") { @system.receive_message(@connection, 64) }
      @template.expects_container = false
      @plan.enter(message, descriptors)
      join_keyring
      join_namespaces
      take_streams
      change_user
      take_capabilities
      take_files
      confine
      await_go
      @template.interpreter.complete_child
    end

    private

    def enter_cgroups
      zero = @system.store("0")
      @request.procs.each_with_index do |descriptor, number|
        attempt("write: procs file #{number}") { @system.call(:write, descriptor, zero, 1) }
      end
    end

    def send_message(message)
      attempt("send: #{message}") { @system.send_message(@connection, message) }
    end

    def read_plan
      body = attempt("pread: body") { @system.read_all(@request.body) }
      filter = @request.filter
      filter &&= attempt("pread: filter") { @system.read_all(filter) }
      Plan.new(body, filter)
    end

    # Gives up what is the template's.
    def leave_template
      rest = @request.descriptors - [@stub]
      [@template.listener, @template.own_namespace, *rest].each do |descriptor|
        @system.close(descriptor)
      end
      @system.make_blocking(@stub)
      @system.change_action(17, @template.on_child_exit) # SIGCHLD
      seed
    end

    # Separates the random numbers of the children from each other.
    #
    # OpenSSL notices a fork by the process id. In the PID namespace of its container, a child may
    # have the same id as the template has in its own. rand is seeded by rb_thread_atfork.
    def seed
      if defined?(OpenSSL::Random)
        OpenSSL::Random.random_add(Random.urandom(48), 48.0)
      end
      # The names of Tempfile, before Ruby 3.3.
      names = Dir::Tmpname.const_get(:RANDOM) if defined?(Dir::Tmpname)
      Random.instance_method(:initialize).bind_call(names) if names.is_a?(Random)
    end

    # Does what does not depend on the container, which the runtime still makes.
    def prepare
      @template.program.verify(@plan.arguments)
      File.umask(@plan.umask)
      limit_capabilities
      take_environment
      @template.program.assume(@plan.arguments)
    end

    def limit_capabilities
      return unless @plan.bounding

      64.times do |bit|
        next unless @plan.bounding[bit].zero?

        begin
          @system.prctl(24, bit) # PR_CAPBSET_DROP
        rescue Errno::EINVAL
          # The number is above the kernel's last capability.
          return
        rescue SystemCallError => error
          raise Failure.new(error.errno, "prctl: PR_CAPBSET_DROP")
        end
      end
    end

    def take_environment
      @plan.environment["HOME"] = "/" if @plan.home_of
      ENV.clear
      ENV.update(@plan.environment)
    rescue ArgumentError, SystemCallError => error
      raise Failure.new(Errno::EINVAL::Errno, "environment: #{error.message}")
    end

    # Joins the session keyring that init has made, and that must be init's.
    #
    # Init has made it before message C, and has let others find it.
    def join_keyring
      @system.join_keyring(@plan.keyring) if @plan.keyring
    rescue Errno::ENOSYS
      nil
    rescue SystemCallError => error
      raise Failure.new(error.errno, "keyctl: join session keyring")
    end

    def join_namespaces
      @plan.namespaces.each do |descriptor, kind|
        attempt("setns: #{NAMESPACES.fetch(kind, kind)} namespace") do
          @system.call(:setns, descriptor, kind)
        end
      end
    end

    def take_streams
      @plan.streams.each_with_index do |descriptor, number|
        attempt("dup2: #{number}") { @system.call(:dup3, descriptor, number) }
        stream = STREAMS[number]
        next if stream.closed? || stream.fileno != number

        renew(stream, descriptor) if stream.tty? != @template.terminals[number]
      end
    end

    # Makes a stream know whether its file is a terminal: one that is none has a larger buffer.
    #
    # The objects stay the same: loggers and others have references to them.
    def renew(stream, descriptor)
      sync = stream.sync
      encodings = [stream.external_encoding, stream.internal_encoding]
      is_binary = stream.binmode?
      flags = stream.equal?(STDIN) ? File::RDONLY : File::WRONLY
      donor = @system.open_stream(descriptor, flags)
      donor.autoclose = false
      stream.reopen(donor)
      stream.sync = sync
      return unless is_binary

      stream.binmode
      stream.set_encoding(*encodings)
    end

    # Enters the working directory, and becomes the user.
    #
    # Root may enter directories that the user may not enter, and the reverse (NFS without root).
    # The groups come before the user: the user may not change them.
    def change_user
      is_denied = false
      begin
        enter_directory
      rescue Failure => error
        denials = [Errno::EACCES::Errno, Errno::EPERM::Errno]
        raise unless denials.include?(error.number)

        is_denied = true
      end
      change_ids
      enter_directory if is_denied
      attempt("getcwd: #{@plan.directory}") { @system.verify_directory }
    end

    def enter_directory
      attempt("chdir: #{@plan.directory}") { @system.change_directory(@plan.directory) }
    end

    def change_ids
      uid, gid, groups = @plan.uid, @plan.gid, @plan.groups
      keep_capabilities(1)
      attempt("setgroups: #{groups}") { @system.change_groups(groups) } if groups
      attempt("setresgid: #{gid}") { @system.call(:setresgid, gid, gid, gid) }
      attempt("setresuid: #{uid}") { @system.call(:setresuid, uid, uid, uid) }
      keep_capabilities(0)
    end

    def keep_capabilities(flag)
      return if @plan.uid.zero?

      attempt("prctl: PR_SET_KEEPCAPS") { @system.prctl(8, flag) }
    end

    def take_capabilities
      if @plan.sets
        effective, permitted, inheritable = @plan.sets
        more = keeps_sys_admin? ? SYS_ADMIN : 0
        attempt("capset") do
          @system.change_capabilities(effective | more, permitted | more, inheritable)
        end
        # PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL
        attempt("prctl: PR_CAP_AMBIENT") { @system.prctl(47, 4) }
      end
      64.times do |bit|
        next if @plan.ambient[bit].zero?

        # PR_CAP_AMBIENT_RAISE. It must also be permitted and inheritable. runc continues as well.
        @system.invoke(:prctl, 47, 2, bit)
      end
      # The change of user has made the files of /proc/self those of root, and /dev/stdout is one of
      # them. An execve would undo this. The warm-up may have wanted it.
      attempt("prctl: PR_SET_DUMPABLE") { @system.prctl(4, @template.dumpable) }
      return unless @plan.no_new_privileges

      attempt("prctl: PR_SET_NO_NEW_PRIVS") { @system.prctl(38, 1) }
    end

    # Whether loading the filter needs a capability that the program may not have.
    def keeps_sys_admin?
      @plan.filter && !@plan.no_new_privileges
    end

    # Takes what the files of the container say, as its user.
    def take_files
      find_home if @plan.home_of
      # The time zone may be that of /etc/localtime. libc reads the file of another zone only if TZ
      # is another one, but the template may have read a file of the same name.
      zone = ENV.delete("TZ")
      @system.read_zone
      return unless zone

      ENV["TZ"] = zone
      @system.read_zone
    end

    # Sets HOME from the container's own passwd(5), where the configuration does not say it.
    #
    # The image may have anything in the place of this file. Without these flags, open would wait
    # for the writer of a FIFO, or make a terminal that of the session.
    def find_home
      descriptor = IO.sysopen("/etc/passwd", File::RDONLY | File::NONBLOCK | File::NOCTTY)
      file = IO.for_fd(descriptor)
      text = file.stat.file? ? file.pread(LONGEST_PASSWD, 0) : ""
      wanted = @plan.home_of.to_s
      text.b.each_line("\n", chomp: true) do |line|
        fields = line.split(":", -1)
        next unless fields.size > 5 && fields[2] == wanted && !fields[5].empty?

        ENV["HOME"] = fields[5]
        break
      end
    rescue ArgumentError, EOFError, SystemCallError
      # HOME stays what it is for a user without an entry.
      nil
    ensure
      file&.close
    end

    # Loads the filter, and says that the child is ready.
    #
    # The filter may forbid most calls. What follows it are capset, send, recv and close.
    def confine
      (@plan.streams + @plan.namespaces.map(&:first)).each { |number| @system.close(number) }
      attempt("unshare: the process has several threads") { @system.verify_one_thread }
      @system.restore_signals(@template.signals)
      if @plan.filter
        attempt("seccomp") { @system.load_filter(@plan.filter_flags, @plan.filter) }
        if @plan.sets && keeps_sys_admin?
          attempt("capset") { @system.change_capabilities(*@plan.sets) }
        end
      end
      send_message("R")
    end

    def await_go
      Process.exit!(1) if @system.receive(@stub, 16) != "G"
      @system.close(@stub)
      @system.close(@connection)
    end
  end

  private_constant(*constants)
end

import os, sys
import dayfly_template
held = b'x' * (int(sys.argv[1]) << 20)
dayfly_template.wait()
os._exit(0)

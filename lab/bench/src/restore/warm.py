import os, time
while True:
    if not os.path.exists('/out/ready'):
        open('/out/ready', 'w').close()
    time.sleep(0.001)

"""Outputs of real builds: Docker 20.10's classic builder and its BuildKit, buildah 1.28."""

CLASSIC = """\
100.000000 kit-build began
100.300000 Sending build context to Docker daemon  3.631kB
100.500000 Step 1/4 : FROM localhost/kit-base
100.500001 ---> f48db69cb9a3
100.600000 Step 2/4 : ENV PATH="/bin"
100.650000 ---> Running in f801032f9159
100.900000 Step 3/4 : COPY . /
101.500000 ---> 0d2d469e0d56
101.500001 Step 4/4 : RUN ["/kit-control/kit-probe", "step", "/build", "make"]
101.600000 ---> Running in 3f6f4a308652
102.400000 kit-step began 102.300000000
112.400000 kit-step ended 112.300000000
112.800000 Removing intermediate container 3f6f4a308652
112.800001 ---> 6cf8090e4646
112.800002 Successfully built 6cf8090e4646
112.900000 Successfully tagged localhost/kit-step-bs2:1
113.000000 kit-build ended
kit-build size 2779015
"""
CACHED = """\
100.000000 kit-build began
100.200000 Step 1/2 : FROM localhost/kit-step-bs2:1
100.200000 ---> 6cf8090e4646
100.250000 Step 2/2 : RUN ["/kit-control/kit-probe", "step", "/build", "make"]
100.300000 ---> Using cache
100.300000 ---> ff4cf1a7a83d
100.350000 Successfully built ff4cf1a7a83d
100.400000 kit-build ended
kit-build size 2779015
"""
BUILDAH = """\
100.000000 kit-build began
100.100000 STEP 1/4: FROM localhost/kit-base
100.300000 STEP 2/4: ENV PATH="/bin"
100.500000 --> 7c249f32001
100.600000 STEP 3/4: COPY . /
101.200000 --> 70f8e35ff9b
101.300000 STEP 4/4: RUN ["/kit-control/kit-probe", "step", "/build", "make"]
101.800000 kit-step began 101.700000000
102.400000 kit-step ended 102.300000000
102.500000 COMMIT localhost/kit-step-bbs2:1
102.800000 --> 58af4148510
102.900000 Successfully tagged localhost/kit-step-bbs2:1
103.000000 kit-build ended
kit-build size 3225306
"""
BUILDKIT = """\
100.000000 kit-build began
100.400000 #1 [internal] load build definition from Dockerfile.1
100.400001 #1 DONE 0.1s
100.500000 #3 [internal] load metadata for localhost/kit-base:latest
100.600000 #4 [stage-0 1/3] FROM localhost/kit-base
100.700000 #5 [internal] load build context
100.700001 #5 transferring context: 103B 0.0s done
100.900000 #6 [stage-0 2/3] COPY . /
100.900001 #6 DONE 0.1s
101.300000 #7 [stage-0 3/3] RUN ["/kit-control/kit-probe", "step", "/build", "make"]
101.500000 kit-step began 101.200000000
102.500000 kit-step ended 102.400000000
102.500001 #7 DONE 1.4s
102.700000 #8 exporting to image
102.700001 #8 exporting layers 0.1s done
102.900000 #8 DONE 0.2s
103.000000 kit-build ended
kit-build size 2779015
"""
BUILDKIT_CACHED = """\
100.000000 kit-build began
100.400000 #4 [1/2] FROM localhost/kit-base
100.500000 #7 [2/2] RUN ["/kit-control/kit-probe", "step", "/build", "make"]
100.500001 #7 CACHED
100.600000 #8 exporting to image
100.800000 kit-build ended
"""

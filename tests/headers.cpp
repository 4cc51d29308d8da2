// The program without test cases whose precompiled headers the test programs share.

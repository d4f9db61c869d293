/*
 * mpix.h: C2MPI, the compute-centric message passing interface of the HALO paper. Made from the crate
 * flash-c2mpi; link with -lmpix.
 *
 *     unsigned long child_rank = 0;
 *     MPIX_ComputeObj obj;
 *     MPIX_Initialize(&argc, &argv);
 *     MPIX_Claim("EWMM", NULL, NULL, &child_rank);
 *     MPIX_ComputeObj_create(&obj);
 *     MPIX_ComputeObj_scalar(obj, &n, MPIX_UINT64_T);
 *     MPIX_ComputeObj_vector(obj, a, n, MPIX_FLOAT);
 *     MPIX_ComputeObj_vector(obj, b, n, MPIX_FLOAT);
 *     MPIX_ComputeObj_vector(obj, c, n, MPIX_FLOAT);
 *     MPIX_Send(obj, 1, MPIX_COMPUTE_OBJ, child_rank, 0, MPIX_COMM_WORLD);
 *     MPIX_Recv(obj, 1, MPIX_COMPUTE_OBJ, child_rank, 0, MPIX_COMM_WORLD, MPIX_STATUS_IGNORE);
 *     MPIX_Finalize();
 *
 * Errors. A function returns MPIX_SUCCESS, which is 0, or an MPIX_ERR_*. What was expected, what was found and
 * what to do is in MPIX_Last_error, per thread. No panic of FLASH leaves a function.
 *
 * Handles are numbers, also those that are pointers here: one that is NULL, of another kind, or freed is an
 * error, until about a thousand more of their kind are freed. Any thread may use them, several at once; a
 * compute object is used by one call at a time, which is found out (MPIX_ERR_BUSY).
 *
 * The caller's duty: a pointer that is neither NULL nor a handle is an address of what the function says, as
 * long as it says.
 */
